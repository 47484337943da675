#pragma once
#include <capstan/base/export.h>

CAPSTAN_BEGIN_NAMESPACE
namespace strategy {

/// What a strategy does around one unit. Called by UnitRunner on the thread that runs forward, and for the
/// backward ones on the thread that runs backward (on CUDA another one, with forward's stream current).
///
/// For each forward with gradient, each of the backward calls comes exactly once, in the order before_backward,
/// after_backward, and, when the whole backward is done, end_backward in unit order. Where the step's program leaves
/// gradients of weights to a backward_weight (Action), that calls after_weight_gradients, and end_backward when all of
/// a stage's are there; otherwise after_weight_gradients is not called. Frozen units before the first trainable one get
/// none of them. A re-entrant recompute runs inside before/after_backward, without forward calls.
class UnitHooks {
 public:
  virtual ~UnitHooks();
  virtual void before_forward() {}
  virtual void after_forward() {}
  virtual void before_backward() {}
  /// All gradients of this unit's own weights are there, but for those that are left to later; a tied weight still
  /// waits for its other user.
  virtual void after_backward() {}
  /// The ones that were left to later are there.
  virtual void after_weight_gradients() {}
  virtual void end_backward() {}
};

}  // namespace strategy
CAPSTAN_END_NAMESPACE
