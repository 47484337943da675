#include <ATen/ATen.h>
#include <capstan/adamw/adamw.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "lists.h"

namespace capstan::optimizer {
namespace {

// Slices that one call updates: with one learning rate and decay, all or none with a copy to write, of the same dtypes.
struct Alike {
  double lr;
  double decay;
  bool copies;
  c10::ScalarType type;
  c10::ScalarType gradient;
  adamw::Lists lists;
};

// What adamw::update_on_host takes: always by the same kernel, so that offloading changes no bit.
bool is_host_float(const Slice& slice) { return slice.master.is_cpu() && slice.master.scalar_type() == at::kFloat; }

class AdamW : public Rule {
 public:
  explicit AdamW(const AdamWOptions& options) : options_(options) {}
  std::vector<StateSpec> states(const layout::Param& /*record*/) const override {
    return {{"exp_avg"}, {"exp_avg_sq"}};
  }
  bool is_fused() const override { return true; }
  void apply(std::vector<Slice>& slices, const Update& update) override;

 private:
  adamw::Step step_of(double lr, double decay) const;
  void apply_on_host(const Slice& slice, const Update& update) const;
  void apply_alike(Alike& alike, const Update& update) const;
  AdamWOptions options_;
};

adamw::Step AdamW::step_of(double lr, double decay) const {
  adamw::Step step;
  step.lr = lr;
  step.beta1 = options_.betas[0];
  step.beta2 = options_.betas[1];
  step.decay = decay;
  step.eps = options_.eps;
  return step;
}

void AdamW::apply_on_host(const Slice& slice, const Update& update) const {
  if (update.skip.defined() && update.skip.item<float>() != 0) return;
  auto step = step_of(slice.lr, slice.weight_decay);
  step.count = update.count.item<double>();
  if (update.grad_scale.defined()) step.grad_scale = update.grad_scale.item<float>();
  adamw::update_on_host(slice.master, slice.state[0], slice.state[1], slice.grad, slice.copy, step);
}

// The library's own pass over a GPU's memory writes the copies too; ATen's, with the same bits, takes every other
// tensor.
void AdamW::apply_alike(Alike& alike, const Update& update) const {
  auto& [masters, averages, squares, gradients, copies] = alike.lists;
  bool own = update.grad_scale.defined() && update.skip.defined();
  for (std::size_t i = 0; own && i < masters.size(); ++i)
    own = adamw::takes(masters[i], gradients[i], alike.copies ? copies[i] : at::Tensor());
  const auto step = step_of(alike.lr, alike.decay);
  const auto count = update.count.to(at::kFloat);  // as the kernels read it; beyond 2^24 no bias is left to correct
  if (own) return adamw::update_lists(alike.lists, step, {count, update.grad_scale, update.skip});
  for (auto& gradient : gradients) gradient = gradient.to(alike.type);
  const std::vector<at::Tensor> counts(masters.size(), count);
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
    const bool copies = slice.copy.defined();
    const auto type = slice.master.scalar_type(), gradient = slice.grad.scalar_type();
    auto found = std::find_if(all.begin(), all.end(), [&](const Alike& one) {
      return one.lr == slice.lr && one.decay == slice.weight_decay && one.copies == copies && one.type == type &&
             one.gradient == gradient;
    });
    if (found == all.end()) found = all.insert(all.end(), {slice.lr, slice.weight_decay, copies, type, gradient, {}});
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

std::unique_ptr<Rule> adamw(const AdamWOptions& options) { return std::make_unique<AdamW>(options); }

}  // namespace capstan::optimizer
