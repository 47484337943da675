#pragma once
#include <capstan/base/export.h>
#include <capstan/strategy/optimizer_rule.h>

#include <ATen/core/Tensor.h>

#include <vector>

#include "setup/options.h"

CAPSTAN_BEGIN_NAMESPACE
namespace assembly {

/// AdamW (Loshchilov & Hutter 2019) as a function of slices, by ATen's fused kernels; of float32 in host
/// memory by ops::adamw_. Wants two state tensors a slice: the averages of gradients and of their squares. Keeps
/// nothing itself.
class AdamW : public strategy::OptimizerRule {
 public:
  explicit AdamW(setup::OptimizerOptions options) : options_(std::move(options)) {}
  std::size_t states() const override { return 2; }
  std::string state_name(std::size_t i) const override { return i == 0 ? "exp_avg" : "exp_avg_sq"; }
  bool is_elementwise() const override { return true; }
  bool is_fused() const override { return true; }
  void apply(std::vector<strategy::Slice>& slices, const strategy::Update& update) override;
  bool decays(const nn::Weight& weight) const { return options_.decay == "all" || weight.records().front().decay; }

 private:
  void apply_on_host(const strategy::Slice& slice, const strategy::Update& update) const;
  setup::OptimizerOptions options_;
};

}  // namespace assembly
CAPSTAN_END_NAMESPACE
