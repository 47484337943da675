#include "train/adamw.h"

#include <ATen/ATen.h>

#include <optional>
#include <utility>

namespace capstan::train {
namespace {

struct Lists {
  std::vector<at::Tensor> params;
  std::vector<at::Tensor> grads;
  std::vector<at::Tensor> averages;
  std::vector<at::Tensor> squares;
  std::vector<at::Tensor> steps;
};

}  // namespace

void AdamW::apply(std::vector<strategy::Slice>& slices, const strategy::Update& update) {
  Lists decayed;
  Lists plain;
  for (auto& slice : slices) {
    auto& lists = decays(*slice.weight) ? decayed : plain;
    lists.params.push_back(slice.master);
    lists.grads.push_back(slice.grad);
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
}

}  // namespace capstan::train
