#include <ATen/ATen.h>
#include <capstan/strategy/adamw.h>

#include <optional>
#include <string>
#include <vector>

#include "ops/adamw.h"

namespace capstan::strategy {
namespace {

struct Lists {
  std::vector<at::Tensor> params;
  std::vector<at::Tensor> grads;
  std::vector<at::Tensor> averages;
  std::vector<at::Tensor> squares;
  std::vector<at::Tensor> steps;
};

// What ops::adamw_ updates: always by the same kernel, so that offloading changes no bit.
bool is_host_float(const Slice& slice) { return slice.master.is_cpu() && slice.master.scalar_type() == at::kFloat; }

class AdamW : public OptimizerRule {
 public:
  explicit AdamW(const AdamWOptions& options) : options_(options) {}
  std::size_t states() const override { return 2; }
  std::string state_name(std::size_t i) const override { return i == 0 ? "exp_avg" : "exp_avg_sq"; }
  bool is_elementwise() const override { return true; }
  bool is_fused() const override { return true; }
  void apply(std::vector<Slice>& slices, const Update& update) override;

 private:
  bool decays(const nn::Weight& weight) const { return options_.decays_all || weight.records().front().decay; }
  void apply_on_host(const Slice& slice, const Update& update) const;
  AdamWOptions options_;
};

void AdamW::apply_on_host(const Slice& slice, const Update& update) const {
  if (update.skip.defined() && update.skip.item<float>() != 0) return;
  ops::AdamwStep step;
  step.lr = update.lr;
  step.beta1 = options_.betas[0];
  step.beta2 = options_.betas[1];
  step.decay = decays(*slice.weight) ? options_.weight_decay : 0.0;
  step.eps = options_.eps;
  step.count = update.count.item<float>();
  if (update.grad_scale.defined()) step.grad_scale = update.grad_scale.item<float>();
  ops::adamw_(slice.master, slice.state[0], slice.state[1], slice.grad, slice.copy, step);
}

void AdamW::apply(std::vector<Slice>& slices, const Update& update) {
  Lists decayed;
  Lists plain;
  for (auto& slice : slices) {
    if (is_host_float(slice)) {
      apply_on_host(slice, update);
      continue;
    }
    auto& lists = decays(*slice.weight) ? decayed : plain;
    lists.params.push_back(slice.master);
    lists.grads.push_back(slice.grad.to(slice.master.scalar_type()));
    lists.averages.push_back(slice.state[0]);
    lists.squares.push_back(slice.state[1]);
    lists.steps.push_back(update.count);
  }
  const auto run = [&](Lists& lists, double decay) {
    if (lists.params.empty()) return;
    at::_fused_adamw_(lists.params, lists.grads, lists.averages, lists.squares, {}, lists.steps, update.lr,
                      options_.betas[0], options_.betas[1], decay, options_.eps, /*amsgrad=*/false, /*maximize=*/false,
                      update.grad_scale, update.skip);
  };
  run(decayed, options_.weight_decay);
  run(plain, 0.0);
  for (auto& slice : slices) {
    if (slice.copy.defined() && !is_host_float(slice)) slice.copy.copy_(slice.master);
  }
}

}  // namespace

std::unique_ptr<OptimizerRule> adamw(const AdamWOptions& options) { return std::make_unique<AdamW>(options); }

}  // namespace capstan::strategy
