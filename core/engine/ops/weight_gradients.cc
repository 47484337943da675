#include "ops/weight_gradients.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <utility>

namespace capstan::ops {
namespace {

// LibTorch carries it from the thread that starts backward to those that run it. It uses this kind for nothing itself.
constexpr auto kind = c10::DebugInfoKind::PRODUCER_INFO;

struct Where : c10::DebugInfoBase {
  explicit Where(std::function<WeightGradients*()> call) : get(std::move(call)) {}
  std::function<WeightGradients*()> get;
};

}  // namespace

void WeightGradients::add(torch::autograd::Edge weight, Product product) {
  all_.push_back({std::move(weight), std::move(product)});
}

void WeightGradients::compute() {
  for (auto& [weight, product] : std::exchange(all_, {})) {
    at::Tensor gradient;
    {
      const at::NoGradGuard no_grad;
      gradient = std::exchange(product, {})();  // what it held is free before the next
    }
    torch::autograd::Engine::get_default_engine().execute({weight}, {gradient}, /*keep_graph=*/false,
                                                          /*create_graph=*/false, /*accumulate_grad=*/true);
  }
}

LeaveWeightGradients::LeaveWeightGradients(std::function<WeightGradients*()> where)
    : guard_(kind, std::make_shared<Where>(std::move(where))) {}

at::Tensor weight_gradient(std::uint32_t number, WeightGradients::Product product) {
  const auto* where = static_cast<const Where*>(c10::ThreadLocalDebugInfo::get(kind));
  auto* later = where ? where->get() : nullptr;
  if (!later) return product();
  later->add(torch::autograd::get_current_node()->next_edge(number), std::move(product));
  return {};
}

}  // namespace capstan::ops
