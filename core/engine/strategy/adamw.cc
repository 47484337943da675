#include <ATen/ATen.h>
#include <capstan/strategy/adamw.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "ops/adamw_lists.h"

namespace capstan::strategy {
namespace {

// Slices that one call updates: they decay alike, all or none have a copy to write, and they share their two dtypes.
struct Alike {
  bool decays;
  bool copies;
  c10::ScalarType type;
  c10::ScalarType gradient;
  ops::AdamwLists lists;
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
  ops::AdamwStep step_of(bool decays, const Update& update) const;
  void apply_on_host(const Slice& slice, const Update& update) const;
  void apply_alike(Alike& alike, const Update& update) const;
  AdamWOptions options_;
};

ops::AdamwStep AdamW::step_of(bool decays, const Update& update) const {
  ops::AdamwStep step;
  step.lr = update.lr;
  step.beta1 = options_.betas[0];
  step.beta2 = options_.betas[1];
  step.decay = decays ? options_.weight_decay : 0.0;
  step.eps = options_.eps;
  return step;
}

void AdamW::apply_on_host(const Slice& slice, const Update& update) const {
  if (update.skip.defined() && update.skip.item<float>() != 0) return;
  auto step = step_of(decays(*slice.weight), update);
  step.count = update.count.item<float>();
  if (update.grad_scale.defined()) step.grad_scale = update.grad_scale.item<float>();
  ops::adamw_(slice.master, slice.state[0], slice.state[1], slice.grad, slice.copy, step);
}

// Core's own pass over a GPU's memory writes the copies too; ATen's, with the same bits, takes every other tensor.
void AdamW::apply_alike(Alike& alike, const Update& update) const {
  auto& [masters, averages, squares, gradients, copies] = alike.lists;
  bool own = update.grad_scale.defined() && update.skip.defined();
  for (std::size_t i = 0; own && i < masters.size(); ++i)
    own = ops::takes_adamw_lists(masters[i], gradients[i], alike.copies ? copies[i] : at::Tensor());
  const auto step = step_of(alike.decays, update);
  if (own) return ops::adamw_lists_(alike.lists, step, {update.count, update.grad_scale, update.skip});
  for (auto& gradient : gradients) gradient = gradient.to(alike.type);
  const std::vector<at::Tensor> counts(masters.size(), update.count);
  at::_fused_adamw_(masters, gradients, averages, squares, {}, counts, step.lr, step.beta1, step.beta2, step.decay,
                    step.eps, /*amsgrad=*/false, /*maximize=*/false, update.grad_scale, update.skip);
  for (std::size_t i = 0; i < copies.size(); ++i) copies[i].copy_(masters[i]);
}

void AdamW::apply(std::vector<Slice>& slices, const Update& update) {
  std::vector<Alike> all;
  for (auto& slice : slices) {
    if (is_host_float(slice)) {
      apply_on_host(slice, update);
      continue;
    }
    const bool decay = decays(*slice.weight), copies = slice.copy.defined();
    const auto type = slice.master.scalar_type(), gradient = slice.grad.scalar_type();
    auto found = std::find_if(all.begin(), all.end(), [&](const Alike& one) {
      return one.decays == decay && one.copies == copies && one.type == type && one.gradient == gradient;
    });
    if (found == all.end()) found = all.insert(all.end(), {decay, copies, type, gradient, {}});
    auto& lists = found->lists;
    lists.masters.push_back(slice.master);
    lists.gradients.push_back(slice.grad);
    lists.averages.push_back(slice.state[0]);
    lists.squares.push_back(slice.state[1]);
    if (copies) lists.copies.push_back(slice.copy);
  }
  for (auto& alike : all) apply_alike(alike, update);
}

}  // namespace

std::unique_ptr<OptimizerRule> adamw(const AdamWOptions& options) { return std::make_unique<AdamW>(options); }

}  // namespace capstan::strategy
