#pragma once
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <c10/core/DispatchKeySet.h>
#include <capstan/nn/attention.h>
#include <capstan/nn/recompute_context.h>
#include <capstan/strategy/keep_input.h>

#include <deque>
#include <functional>
#include <vector>

namespace c10 {
class OperatorHandle;
}

namespace recompute {

/// What fused kernels of attention, LibTorch's or a model's, returned in the first run of a unit, for the second one:
/// that computes queries, keys and values again, from which backward continues as if the kernels had run. A kernel that
/// is called in another way than in the first run, and attention that calls none of these kernels, compute again.
/// Belongs to one forward of one layer; both runs are on one thread at a time.
class AttentionResults {
 public:
  /// `keep`: where the outputs wait for backward; empty: where they are.
  explicit AttentionResults(capstan::strategy::KeepInput keep) : keep_(std::move(keep)) {}
  /// Runs `kernels`. The first run has no grad mode, the second one does.
  at::Tensor run(const std::function<at::Tensor()>& kernels);

  /// What every call of such a kernel goes through, for the results that are at work on this thread.
  static void watch(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

 private:
  struct Call {
    const void* kernel;
    std::vector<c10::IValue> results;  ///< without the first, where it waits elsewhere
    std::function<at::Tensor()> first;
  };
  void store(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
  bool restore(const c10::OperatorHandle& op, torch::jit::Stack& stack);

  capstan::strategy::KeepInput keep_;
  std::deque<Call> calls_;
  bool is_again_ = false;
};

/// What is put around the rows of attention's table, whichever is chosen (nn::AttentionTable::wrap).
class KeepAttention {
 public:
  KeepAttention(const capstan::nn::AttentionCore& attention, capstan::strategy::KeepInput keep)
      : attention_(&attention), keep_(std::move(keep)) {}
  at::Tensor operator()(const std::function<at::Tensor()>& kernels, capstan::nn::RecomputeContext& both) const;

 private:
  const capstan::nn::AttentionCore* attention_;
  capstan::strategy::KeepInput keep_;
};

}  // namespace recompute
