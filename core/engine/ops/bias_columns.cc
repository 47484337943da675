#include <ATen/ATen.h>
#include <capstan/ops/bias_columns.h>

namespace capstan::ops {
namespace {

constexpr std::int64_t bias_parts = 3;  // parts of a bias, each in a column of k

}  // namespace

std::int64_t bias_columns(std::int64_t dim) {
  constexpr std::int64_t multiple = 8;
  return (dim + bias_parts + multiple - 1) / multiple * multiple;
}

WidenedHeads with_bias_columns(const at::Tensor& q, const at::Tensor& k, const at::Tensor& bias, double scale) {
  const auto columns = bias_columns(q.size(-1)) - q.size(-1);
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

}  // namespace capstan::ops
