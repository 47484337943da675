#include "attention_results.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace recompute {
namespace {

// It lies below autograd, and nothing in LibTorch's libraries uses it. The engine lets all other operators pass.
constexpr auto key = c10::DispatchKey::Fake;

thread_local AttentionResults* at_work = nullptr;

class Current {
 public:
  explicit Current(AttentionResults* now) : before_(std::exchange(at_work, now)) {}
  ~Current() { at_work = before_; }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  AttentionResults* before_;
};

// Without a graph some kernels are asked for no logarithms of sums, which backward needs.
void ask_for_sums(const c10::FunctionSchema& schema, torch::jit::Stack& stack) {
  const auto index = schema.argumentIndexWithName("compute_log_sumexp");
  if (index) torch::jit::peek(stack, static_cast<std::size_t>(*index), schema.arguments().size()) = true;
}

// The same memory without what autograd knows of it.
c10::IValue bare(const c10::IValue& value) {
  if (!value.isTensor() || !value.toTensor().defined()) return value;
  return value.toTensor().variable_data();
}

}  // namespace

at::Tensor AttentionResults::run(const std::function<at::Tensor()>& kernels) {
  is_again_ = at::GradMode::is_enabled();
  const Current here(this);
  const c10::impl::IncludeDispatchKeyGuard switched_on{c10::DispatchKeySet(key)};
  return kernels();
}

void AttentionResults::store(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  Call call{&op.schema(), {}, {}};
  for (const auto& result : torch::jit::last(stack, op.schema().returns().size())) call.results.push_back(bare(result));
  if (keep_) call.first = keep_(std::exchange(call.results.front(), at::Tensor()).toTensor());
  calls_.push_back(std::move(call));
}

bool AttentionResults::restore(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  if (calls_.empty()) return false;
  auto call = std::move(calls_.front());
  calls_.pop_front();
  if (call.kernel != &op.schema()) return false;
  torch::jit::drop(stack, op.schema().arguments().size());
  if (call.first) call.results.front() = call.first();
  for (auto& result : call.results) torch::jit::push(stack, std::move(result));
  return true;
}

void AttentionResults::watch(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  auto* const results = at_work;
  const Current none(nullptr);  // what the kernel calls is part of it
  const bool is_first = results && !results->is_again_;
  if (results && !is_first && results->restore(op, *stack)) return;
  if (is_first) ask_for_sums(op.schema(), *stack);
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, key), stack);
  if (is_first) results->store(op, *stack);
}

TORCH_LIBRARY_IMPL(aten, Fake, m) {
  for (const auto* kernel : {"_scaled_dot_product_cudnn_attention", "_scaled_dot_product_flash_attention",
                             "_scaled_dot_product_efficient_attention", "_scaled_dot_product_flash_attention_for_cpu",
                             "_flash_attention_forward"}) {
    m.impl(kernel, torch::CppFunction::makeFromBoxedFunction<&AttentionResults::watch>());
  }
}

// A model's own, of queries, keys and values in one.
TORCH_LIBRARY_IMPL(capstan, Fake, m) {
  m.impl("alibi_attention", torch::CppFunction::makeFromBoxedFunction<&AttentionResults::watch>());
}

at::Tensor KeepAttention::operator()(const std::function<at::Tensor()>& kernels,
                                     capstan::nn::RecomputeContext& both) const {
  return both
      .once<std::shared_ptr<AttentionResults>>(attention_, [&] { return std::make_shared<AttentionResults>(keep_); })
      ->run(kernels);
}

}  // namespace recompute
