#include "operators.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <type_traits>

namespace qwen3 {
namespace {

at::ScalarType sum_type(const at::Tensor& x) { return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

// Each head's weights: [queries + keys, dim].
at::Tensor weights_of(at::TensorList norms, std::int64_t queries, std::int64_t keys, at::ScalarType type) {
  return at::cat({norms[0].expand({queries, -1}), norms[1].expand({keys, -1})}).to(type);
}

at::Tensor inverse_root(const at::Tensor& x, double epsilon) {
  return (x.square().mean(-1, /*keepdim=*/true) + epsilon).rsqrt();
}

// `sign` -1: by the opposite angle.
at::Tensor turned(const at::Tensor& x, const at::Tensor& positions, at::ArrayRef<double> frequencies, double sign) {
  const auto type = x.scalar_type();
  const at::Tensor angle = positions.to(type).unsqueeze(-1) * at::tensor(frequencies, at::TensorOptions(type));
  const at::Tensor cosine = angle.cos().unsqueeze(2), sine = angle.sin().unsqueeze(2) * sign;
  const auto half = x.chunk(2, -1);
  return at::cat({half[0] * cosine - half[1] * sine, half[1] * cosine + half[0] * sine}, -1);
}

at::Tensor forward_cpu(const at::Tensor& fused, at::TensorList norms, const at::Tensor& positions,
                       at::IntArrayRef counts, double epsilon, at::ArrayRef<double> frequencies) {
  const auto type = sum_type(fused);
  const at::Tensor x = fused.narrow(2, 0, counts[0] + counts[1]).to(type);
  const at::Tensor normed = x * inverse_root(x, epsilon) * weights_of(norms, counts[0], counts[1], type);
  return turned(normed, positions, frequencies, 1).to(fused.scalar_type());
}

at::Tensor forward_meta(const at::Tensor& fused, at::TensorList, const at::Tensor&, at::IntArrayRef counts, double,
                        at::ArrayRef<double>) {
  return at::empty({fused.size(0), fused.size(1), counts[0] + counts[1], fused.size(3)}, fused.options());
}

// `gradients`: of q, k and v.
at::Tensor backward_cpu(at::TensorList gradients, const at::Tensor& fused, at::TensorList norms,
                        const at::Tensor& positions, double epsilon, at::ArrayRef<double> frequencies) {
  const auto type = sum_type(fused);
  const auto queries = gradients[0].size(2), keys = gradients[1].size(2);
  const at::Tensor x = fused.narrow(2, 0, queries + keys).to(type), root = inverse_root(x, epsilon), z = x * root;
  const at::Tensor of_normed = turned(at::cat({gradients[0], gradients[1]}, 2).to(type), positions, frequencies, -1);
  const at::Tensor g = of_normed * weights_of(norms, queries, keys, type);
  const at::Tensor of_x = root * (g - z * (g * z).mean(-1, /*keepdim=*/true));
  return at::cat({of_x.to(fused.scalar_type()), gradients[2]}, 2);
}

at::Tensor backward_meta(at::TensorList, const at::Tensor& fused, at::TensorList, const at::Tensor&, double,
                         at::ArrayRef<double>) {
  return at::empty(fused.sizes(), fused.options());
}

static_assert(std::is_same_v<Forward, decltype(forward_cpu)> && std::is_same_v<Backward, decltype(backward_cpu)>);

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan, m) {
  m.def(
      "qwen3_heads(Tensor fused, Tensor[] norms, Tensor positions, int[] counts, float epsilon, float[] frequencies) "
      "-> Tensor");
  m.def(
      "qwen3_heads_back(Tensor[] gradients, Tensor fused, Tensor[] norms, Tensor positions, float epsilon, "
      "float[] frequencies) -> Tensor");
}

TORCH_LIBRARY_IMPL(capstan, CPU, m) {
  m.impl("qwen3_heads", &forward_cpu);
  m.impl("qwen3_heads_back", &backward_cpu);
}

TORCH_LIBRARY_IMPL(capstan, Meta, m) {
  m.impl("qwen3_heads", &forward_meta);
  m.impl("qwen3_heads_back", &backward_meta);
}

}  // namespace qwen3
