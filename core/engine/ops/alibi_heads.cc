#include "ops/alibi_heads.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>

#include "ops/operator.h"

namespace capstan::ops {
namespace {

constexpr std::int64_t bias_parts = 3;  // parts of a bias, each in a column of k

using QueriesAndKeys = std::tuple<at::Tensor, at::Tensor>;

at::Tensor widened_like(const at::Tensor& fused) {
  return at::empty({fused.size(0), fused.size(1), fused.size(2), alibi_columns(fused.size(4))}, fused.options());
}

// The plain reference of the GPU's kernel.
QueriesAndKeys alibi_heads_cpu(const at::Tensor& fused, const at::Tensor& slopes, const at::Tensor& positions,
                               double scale) {
  const at::Tensor bias = (positions - (fused.size(1) - 1)).unsqueeze(-1) * slopes;
  const auto wide = with_bias_columns(fused.select(3, 0), fused.select(3, 1), bias, scale);
  return {wide.q, wide.k};
}

at::Tensor fused_like(const at::Tensor& q, std::int64_t dim) {
  return at::empty({q.size(0), q.size(1), q.size(2), 3, dim}, q.options());
}

at::Tensor alibi_heads_backward_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, std::int64_t dim) {
  at::Tensor out = fused_like(q, dim);
  out.select(3, 0).copy_(q.narrow(-1, 0, dim));
  out.select(3, 1).copy_(k.narrow(-1, 0, dim));
  out.select(3, 2).copy_(v);
  return out;
}

class AlibiFunction : public Function<AlibiFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& fused, const at::Tensor& slopes,
                               const at::Tensor& positions, double scale) {
    const at::AutoDispatchBelowADInplaceOrView guard;  // outputs of their own, no views that autograd follows
    const auto heads = slopes.size(0), dim = fused.size(2) / (3 * heads);
    ctx->saved_data["dim"] = dim;
    static const auto op = find_operator<decltype(alibi_heads_cpu)>("capstan::alibi_heads");
    const at::Tensor parts = fused.view({fused.size(0), fused.size(1), heads, 3, dim});
    const auto [q, k] = op.call(parts, slopes, positions, scale);
    return {q.transpose(1, 2), k.transpose(1, 2), parts.select(3, 2).transpose(1, 2)};
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    static const auto op = find_operator<decltype(alibi_heads_backward_cpu)>("capstan::alibi_heads_backward");
    const auto by_position = [&](std::size_t i) { return gradients[i].transpose(1, 2); };
    const at::Tensor fused = op.call(by_position(0), by_position(1), by_position(2), ctx->saved_data["dim"].toInt());
    return {fused.view({fused.size(0), fused.size(1), -1}), {}, {}, {}};
  }
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan, m) {
  define(m, "alibi_heads(Tensor fused, Tensor slopes, Tensor positions, float scale) -> (Tensor, Tensor)",
         &alibi_heads_cpu, [](const at::Tensor& fused, const at::Tensor&, const at::Tensor&, double) -> QueriesAndKeys {
           return {widened_like(fused), widened_like(fused)};
         });
  define(
      m, "alibi_heads_backward(Tensor q, Tensor k, Tensor v, int dim) -> Tensor", &alibi_heads_backward_cpu,
      [](const at::Tensor& q, const at::Tensor&, const at::Tensor&, std::int64_t dim) { return fused_like(q, dim); });
}

std::int64_t alibi_columns(std::int64_t dim) {
  constexpr std::int64_t multiple = 8;
  return (dim + bias_parts + multiple - 1) / multiple * multiple;
}

WidenedHeads with_bias_columns(const at::Tensor& q, const at::Tensor& k, const at::Tensor& bias, double scale) {
  const auto columns = alibi_columns(q.size(-1)) - q.size(-1);
  auto shape = k.sizes().vec();
  shape.back() = columns;
  const at::Tensor of_k = at::zeros(shape, k.options()), of_q = at::zeros({columns}, q.options());
  of_q.narrow(0, 0, bias_parts).fill_(1);
  auto rest = bias / scale;
  for (std::int64_t i = 0; i < bias_parts; ++i) {
    const auto part = of_k.select(-1, i);
    part.copy_(rest);
    if (i + 1 < bias_parts) rest = rest - part;
  }
  return {at::cat({q, of_q.expand(shape)}, -1), at::cat({k, of_k}, -1)};
}

AlibiHeads alibi_heads(const at::Tensor& fused, const at::Tensor& slopes, const at::Tensor& positions, double scale) {
  CAPSTAN_ASSERT(fused.dim() == 3 && fused.is_contiguous() && slopes.dim() == 1 && slopes.is_contiguous());
  CAPSTAN_ASSERT(slopes.size(0) > 0 && fused.size(2) % (3 * slopes.size(0)) == 0);
  CAPSTAN_ASSERT(slopes.scalar_type() == (fused.scalar_type() == at::kDouble ? at::kDouble : at::kFloat));
  CAPSTAN_ASSERT(positions.dim() == 2 && positions.scalar_type() == at::kLong && positions.device() == fused.device());
  CAPSTAN_ASSERT(positions.size(0) == fused.size(0) && positions.size(1) == fused.size(1));
  const auto parts = AlibiFunction::apply(fused, slopes, positions, scale);
  return {parts[0], parts[1], parts[2]};
}

}  // namespace capstan::ops
