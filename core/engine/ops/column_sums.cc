#include "ops/column_sums.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>

#include "ops/operator.h"

namespace capstan::ops {
namespace {

using OfNorm = std::tuple<at::Tensor, at::Tensor>;

at::Tensor summed_rows(const at::Tensor& x, at::ScalarType type) {
  const auto wide = type == at::kDouble ? at::kDouble : at::kFloat;
  return x.reshape({-1, x.size(-1)}).sum(0, false, wide).to(type);
}

// The plain references of the GPU's kernels.
at::Tensor column_sums_cpu(const at::Tensor& x) { return summed_rows(x, x.scalar_type()); }

OfNorm norm_weight_sums_cpu(const at::Tensor& gradient, const at::Tensor& x, const Maybe& mean,
                            const at::Tensor& rstd) {
  const at::Tensor wide = x.to(rstd.scalar_type()), z = (mean ? wide - *mean : wide) * rstd;
  return {summed_rows(gradient * z, x.scalar_type()), mean ? summed_rows(gradient, x.scalar_type()) : at::Tensor()};
}

OfNorm norm_weight_sums_meta(const at::Tensor&, const at::Tensor& x, const Maybe& mean, const at::Tensor&) {
  const auto one = [&] { return at::empty({x.size(-1)}, x.options()); };
  return {one(), mean ? one() : at::Tensor()};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan, m) {
  define(m, "column_sums(Tensor x) -> Tensor", &column_sums_cpu,
         [](const at::Tensor& x) { return at::empty({x.size(1)}, x.options()); });
  define(m, "norm_weight_sums(Tensor gradient, Tensor x, Tensor? mean, Tensor rstd) -> (Tensor, Tensor)",
         &norm_weight_sums_cpu, &norm_weight_sums_meta);
}

at::Tensor column_sums(const at::Tensor& x) {
  CAPSTAN_ASSERT(x.dim() == 2);
  static const auto op = find_operator<decltype(column_sums_cpu)>("capstan::column_sums");
  return op.call(x.contiguous());
}

NormWeightGradients norm_weight_gradients(const at::Tensor& gradient, const at::Tensor& x,
                                          const std::optional<at::Tensor>& mean, const at::Tensor& rstd) {
  CAPSTAN_ASSERT(gradient.sizes() == x.sizes() && rstd.numel() * x.size(-1) == x.numel());
  static const auto op = find_operator<decltype(norm_weight_sums_cpu)>("capstan::norm_weight_sums");
  const auto [weight, bias] = op.call(gradient.contiguous(), x.contiguous(), mean, rstd);
  return {weight, bias};
}

}  // namespace capstan::ops
