#include <ATen/ATen.h>
#include <capstan/nn/attention.h>

#include <cmath>

namespace capstan::nn {
namespace {

// transformers' build_alibi_tensor, operation by operation, so that float32 gives the same bits: 2^(-8 i / n) for the
// largest power of two n of the heads; the others take every second one of the rule for 2 n.
at::Tensor slopes_in(at::ScalarType type, std::int64_t heads) {
  const auto powers_of = [&](double count, std::int64_t first, std::int64_t end, std::int64_t step) {
    const auto base = at::full({}, std::exp2(-std::exp2(3 - std::log2(count))), at::TensorOptions(type));
    return at::pow(base, at::arange(first, end, step, at::TensorOptions(at::kInt)));
  };
  std::int64_t whole = 1;
  while (2 * whole <= heads) whole *= 2;
  auto slopes = powers_of(static_cast<double>(whole), 1, whole + 1, 1);
  if (whole == heads) return slopes;
  return at::cat({slopes, powers_of(2.0 * static_cast<double>(whole), 1, 1 + 2 * (heads - whole), 2)});
}

}  // namespace

Alibi::Alibi(Layer& parent, std::int64_t heads)
    : Layer(parent, "alibi"), single_(slopes_in(at::kFloat, heads)), exact_(slopes_in(at::kDouble, heads)) {}

Alibi::~Alibi() = default;

at::Tensor Alibi::slopes(const at::Tensor& like) const {
  const auto& all = like.scalar_type() == at::kDouble ? exact_ : single_;
  if (!on_device_.defined() || on_device_.device() != like.device() || on_device_.scalar_type() != all.scalar_type())
    on_device_ = all.to(like.device());
  return own_heads ? own_heads(on_device_) : on_device_;
}

}  // namespace capstan::nn
