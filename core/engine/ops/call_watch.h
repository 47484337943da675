#pragma once
#include <ATen/core/ivalue.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <capstan/base/export.h>

#include <vector>

namespace c10 {
class OperatorHandle;
}

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// Sees each operator that this thread calls during its lifetime, below autograd, and those that operators call; one at
/// a time a thread. Its dispatch key is Fake, which nothing in LibTorch's libraries uses: an operator that has a kernel
/// for it, as a plugin may register one, comes there instead, and where no one watches, all others pass.
class CallWatch {
 public:
  CallWatch();
  virtual ~CallWatch();
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;

  /// Called in the operator's place, with its arguments on the stack: it runs the operator by pass().
  virtual void called(const c10::OperatorHandle& op, c10::DispatchKeySet keys, std::vector<c10::IValue>& stack) = 0;

 protected:
  /// Runs the operator, which puts its results on the stack.
  static void pass(const c10::OperatorHandle& op, c10::DispatchKeySet keys, std::vector<c10::IValue>& stack);

 private:
  friend class CallWatches;
  c10::impl::IncludeDispatchKeyGuard switched_on_;
};

}  // namespace ops
CAPSTAN_END_NAMESPACE
