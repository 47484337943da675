#pragma once
#include <capstan/base/export.h>

#include <cstdint>

CAPSTAN_BEGIN_NAMESPACE
namespace strategy {

/// What a strategy's StepHooks derive from besides, if they look at losses too.
///
/// Experimental: a later level of the SDK may make this a function of StepHooks, with the step's other figures beside
/// the loss.
class LossHooks {
 public:
  virtual ~LossHooks();
  /// The loss of a step, counted from 0: the mean over the target tokens of all ranks, the same on each, without
  /// auxiliary losses. In the steps' order, when the number has reached the host: some steps later than the update. Not
  /// called for a step without an update. Throws Error to end the run, on all ranks alike.
  virtual void loss_known(std::int64_t step, double loss) = 0;
};

}  // namespace strategy
CAPSTAN_END_NAMESPACE
