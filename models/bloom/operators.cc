#include "operators.h"

#include <ATen/ATen.h>
#include <capstan/ops/bias_columns.h>
#include <torch/library.h>

#include <cmath>
#include <limits>
#include <type_traits>

namespace bloom {

Heads::Heads(const at::Tensor& fused, std::int64_t heads) {
  const auto parts = fused.unflatten(2, {heads, 3, -1}).permute({3, 0, 2, 1, 4});
  q = parts[0];
  k = parts[1];
  v = parts[2];
}

namespace {

double scale_of(const at::Tensor& q) { return 1 / std::sqrt(static_cast<double>(q.size(-1))); }

// The plain reference of the GPU's kernels.
struct Reference {
  Reference(const at::Tensor& fused, const at::Tensor& slopes)
      : of(fused.to(fused.scalar_type() == at::kDouble ? at::kDouble : at::kFloat), slopes.size(0)) {
    const auto at = at::arange(of.q.size(2), of.q.options());
    const auto past = at.unsqueeze(0) - at.unsqueeze(1);
    const auto scores = at::matmul(of.q, of.k.mT()) * scale_of(of.q) + slopes.to(of.q).view({-1, 1, 1}) * past;
    const auto seen = scores.masked_fill(past > 0, -std::numeric_limits<double>::infinity());
    sums = seen.logsumexp(-1);
    probabilities = (seen - sums.unsqueeze(-1)).exp();
  }
  Heads of;
  at::Tensor probabilities, sums;
};

at::Tensor by_position(const at::Tensor& heads, at::ScalarType type) {
  return heads.transpose(1, 2).to(type).contiguous().transpose(1, 2);
}

std::tuple<at::Tensor, at::Tensor> forward_cpu(const at::Tensor& fused, const at::Tensor& slopes) {
  const Reference by(fused, slopes);
  return {by_position(at::matmul(by.probabilities, by.of.v), fused.scalar_type()), by.sums};
}

at::Tensor backward_cpu(const at::Tensor& gradient, const at::Tensor& fused, const at::Tensor& /*out*/,
                        const at::Tensor& /*sums*/, const at::Tensor& slopes) {
  const Reference by(fused, slopes);
  const auto g = gradient.to(by.of.v.scalar_type()), of_p = at::matmul(g, by.of.v.mT());
  const auto of_s = by.probabilities * (of_p - (by.probabilities * of_p).sum(-1, true)) * scale_of(by.of.q);
  const auto parts = {at::matmul(of_s, by.of.k), at::matmul(of_s.mT(), by.of.q), at::matmul(by.probabilities.mT(), g)};
  return at::stack(parts, 3).permute({0, 2, 1, 3, 4}).flatten(2).to(fused.scalar_type());
}

// The memory and the operations of LibTorch's fused kernels for plain attention, as a dry run knows them.
std::tuple<at::Tensor, at::Tensor> forward_meta(const at::Tensor& fused, const at::Tensor& slopes) {
  const Heads of(fused, slopes.size(0));
  const auto all = at::_scaled_dot_product_cudnn_attention(of.q, of.k, of.v, {}, /*compute_log_sumexp=*/true, 0.0,
                                                           /*is_causal=*/true);
  return {std::get<0>(all), std::get<1>(all)};
}

at::Tensor backward_meta(const at::Tensor& gradient, const at::Tensor& fused, const at::Tensor& out,
                         const at::Tensor& sums, const at::Tensor& slopes) {
  const Heads of(fused, slopes.size(0));
  const at::Tensor none;
  at::_scaled_dot_product_cudnn_attention_backward(gradient, of.q, of.k, of.v, out, sums, none, none, none, none, none,
                                                   of.q.size(2), of.q.size(2), 0.0, /*is_causal=*/true);
  return at::empty_like(fused);
}

bool has_meta(const at::Tensor& /*fused*/, std::int64_t /*heads*/, bool /*backward*/) { return true; }
bool has_cpu(const at::Tensor& /*fused*/, std::int64_t /*heads*/, bool /*backward*/) { return false; }

std::tuple<at::Tensor, at::Tensor> widened_cpu(const at::Tensor& fused, const at::Tensor& slopes,
                                               const at::Tensor& positions, double scale) {
  const at::Tensor bias = (positions - (fused.size(1) - 1)).unsqueeze(-1) * slopes;
  const auto wide = capstan::ops::with_bias_columns(fused.select(3, 0), fused.select(3, 1), bias, scale);
  return {wide.q, wide.k};
}

std::tuple<at::Tensor, at::Tensor> widened_meta(const at::Tensor& fused, const at::Tensor& /*slopes*/,
                                                const at::Tensor& /*positions*/, double /*scale*/) {
  const auto wide = capstan::ops::bias_columns(fused.size(4));
  const auto like = [&] { return at::empty({fused.size(0), fused.size(1), fused.size(2), wide}, fused.options()); };
  return {like(), like()};
}

at::Tensor joined_meta(const at::Tensor& q, const at::Tensor& /*k*/, const at::Tensor& /*v*/, std::int64_t dim) {
  return at::empty({q.size(0), q.size(1), q.size(2), 3, dim}, q.options());
}

at::Tensor joined_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, std::int64_t dim) {
  return at::stack({q.narrow(-1, 0, dim), k.narrow(-1, 0, dim), v}, 3);
}

static_assert(std::is_same_v<Forward, decltype(forward_cpu)> && std::is_same_v<Backward, decltype(backward_cpu)> &&
              std::is_same_v<Has, decltype(has_cpu)>);
static_assert(std::is_same_v<Widened, decltype(widened_cpu)> && std::is_same_v<Joined, decltype(joined_cpu)>);

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan, m) {
  m.def("alibi_attention(Tensor fused, Tensor slopes) -> (Tensor, Tensor)");
  m.def("alibi_attention_back(Tensor gradient, Tensor fused, Tensor out, Tensor sums, Tensor slopes) -> Tensor");
  m.def("has_alibi_attention(Tensor fused, int heads, bool backward) -> bool");
  m.def("bloom_heads(Tensor fused, Tensor slopes, Tensor positions, float scale) -> (Tensor, Tensor)");
  m.def("bloom_heads_back(Tensor q, Tensor k, Tensor v, int dim) -> Tensor");
}

TORCH_LIBRARY_IMPL(capstan, CPU, m) {
  m.impl("alibi_attention", &forward_cpu);
  m.impl("alibi_attention_back", &backward_cpu);
  m.impl("has_alibi_attention", &has_cpu);
  m.impl("bloom_heads", &widened_cpu);
  m.impl("bloom_heads_back", &joined_cpu);
}

TORCH_LIBRARY_IMPL(capstan, Meta, m) {
  m.impl("alibi_attention", &forward_meta);
  m.impl("alibi_attention_back", &backward_meta);
  m.impl("has_alibi_attention", &has_meta);
  m.impl("bloom_heads", &widened_meta);
  m.impl("bloom_heads_back", &joined_meta);
}

}  // namespace bloom
