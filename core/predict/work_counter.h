#pragma once
#include <ATen/core/ivalue.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <capstan/base/export.h>

#include <memory>
#include <vector>

#include "step_time/work.h"

namespace c10 {
class OperatorHandle;
}

CAPSTAN_BEGIN_NAMESPACE
namespace meta {

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
  /// The dispatcher calls it for each operator.
  static void watch(const c10::OperatorHandle& op, c10::DispatchKeySet keys, std::vector<c10::IValue>* stack);

 private:
  class Counter;
  std::unique_ptr<Counter> counter_;
  c10::impl::IncludeDispatchKeyGuard switched_on_;
};

}  // namespace meta
CAPSTAN_END_NAMESPACE
