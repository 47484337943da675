#pragma once
#include <capstan/base/export.h>

#include <memory>

#include "step_time/work.h"

CAPSTAN_BEGIN_NAMESPACE
namespace predict {

/// Counts the work of the operators that this thread calls on the meta device during its lifetime; one at a time a
/// thread. An operator that is made of others counts as these.
class WorkCounter {
 public:
  WorkCounter();
  ~WorkCounter();
  WorkCounter(const WorkCounter&) = delete;
  WorkCounter& operator=(const WorkCounter&) = delete;
  /// What was counted so far, which may be taken away.
  plan::Work& work() const;
  /// Fused attention, which is an operator of autograd: its shape rule tells of it.
  static void attend(const plan::AttentionShape& shape, bool is_backward);

 private:
  class Counter;
  std::unique_ptr<Counter> counter_;
};

}  // namespace predict
CAPSTAN_END_NAMESPACE
