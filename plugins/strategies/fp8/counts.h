#pragma once
#include <capstan/strategy/step_hooks.h>

#include <memory>
#include <utility>
#include <vector>

namespace fp8 {

/// What a rank's products have counted on its device since the last step: see Rounding::counts.
class Counts {
 public:
  /// [4] int64 on this device. Undefined for meta tensors.
  at::Tensor on(c10::Device device);
  /// Counting starts anew. "fp8_underflow": the share of operands' numbers that are not zero and become zero;
  /// "fp8_nonfinite_rows": the share of operands' rows that are not finite.
  std::vector<capstan::strategy::Figure> take();

 private:
  at::Tensor numbers_;
};

/// Reports them once a step.
class CountsOfSteps : public capstan::strategy::StepHooks {
 public:
  explicit CountsOfSteps(std::shared_ptr<Counts> counts) : counts_(std::move(counts)) {}
  void begin(capstan::strategy::Step& step) override { counts_->on(step.device); }
  std::vector<capstan::strategy::Figure> figures() override { return counts_->take(); }

 private:
  std::shared_ptr<Counts> counts_;
};

}  // namespace fp8
