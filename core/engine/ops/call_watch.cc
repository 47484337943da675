#include "ops/call_watch.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <capstan/base/error.h>
#include <torch/library.h>

namespace capstan::ops {
namespace {

constexpr auto watched = c10::DispatchKey::Fake;

thread_local CallWatch* at_work = nullptr;

}  // namespace

CallWatch::CallWatch() : switched_on_(c10::DispatchKeySet(watched)) {
  CAPSTAN_ASSERT(at_work == nullptr);
  at_work = this;
}

CallWatch::~CallWatch() { at_work = nullptr; }

void CallWatch::pass(const c10::OperatorHandle& op, c10::DispatchKeySet keys, std::vector<c10::IValue>& stack) {
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, watched), &stack);
}

// What the dispatcher calls for every operator without a kernel of its own for the key, while the key is switched on:
// by a watch, or by a plugin that has kernels for a few operators.
class CallWatches {
 public:
  static void see(const c10::OperatorHandle& op, c10::DispatchKeySet keys, std::vector<c10::IValue>* stack) {
    if (at_work) return at_work->called(op, keys, *stack);
    CallWatch::pass(op, keys, *stack);
  }
};

TORCH_LIBRARY_IMPL(_, Fake, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&CallWatches::see>()); }

}  // namespace capstan::ops
