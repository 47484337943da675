#include "assembly/adamw.h"

#include <ATen/ATen.h>

#include <optional>
#include <utility>

#include "ops/adamw.h"

namespace capstan::assembly {
namespace {

struct Lists {
  std::vector<at::Tensor> params;
  std::vector<at::Tensor> grads;
  std::vector<at::Tensor> averages;
  std::vector<at::Tensor> squares;
  std::vector<at::Tensor> steps;
};

// What ops::adamw_ updates: always by the same kernel, so that offloading changes no bit.
bool is_host_float(const strategy::Slice& slice) {
  return slice.master.is_cpu() && slice.master.scalar_type() == at::kFloat;
}

}  // namespace

void AdamW::apply_on_host(const strategy::Slice& slice, const strategy::Update& update) const {
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

void AdamW::apply(std::vector<strategy::Slice>& slices, const strategy::Update& update) {
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

}  // namespace capstan::assembly
