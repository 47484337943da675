#include "ops/softmax_rows.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>

#include "ops/operator.h"

namespace capstan::ops {
namespace {

using Statistics = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

Statistics statistics_meta(const at::Tensor& logits, const at::Tensor&) {
  const auto column = [&] { return at::empty({logits.size(0), 1}, logits.options()); };
  return {column(), column(), column()};
}

void softmax_gradient_meta(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, double,
                           at::ScalarType) {}

void softmax_loss_meta(const at::Tensor&, const at::Tensor&, double, at::ScalarType, const at::Tensor&) {}

// Each row's gradient is at its begin.
at::Tensor gradient_in(const at::Tensor& logits, at::ScalarType type) {
  return logits.view(type).narrow(1, 0, logits.size(1));
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan, m) {
  m.def("softmax_statistics(Tensor logits, Tensor column) -> (Tensor, Tensor, Tensor)");
  m.def(
      "softmax_gradient_(Tensor(a!) logits, Tensor maximum, Tensor sum, Tensor column, float scale, "
      "ScalarType type) -> ()");
  m.def("softmax_loss_(Tensor(a!) logits, Tensor column, float scale, ScalarType type, Tensor(b!) losses) -> ()");
}

TORCH_LIBRARY_IMPL(capstan, Meta, m) {
  m.impl("softmax_statistics", &statistics_meta);
  m.impl("softmax_gradient_", &softmax_gradient_meta);
  m.impl("softmax_loss_", &softmax_loss_meta);
}

Statistics softmax_statistics(const at::Tensor& logits, const at::Tensor& column) {
  CAPSTAN_ASSERT(logits.scalar_type() == at::kFloat && logits.dim() == 2 && logits.is_contiguous());
  CAPSTAN_ASSERT(column.scalar_type() == at::kLong && column.numel() == logits.size(0));
  static const auto op = find_operator<decltype(statistics_meta)>("capstan::softmax_statistics");
  return op.call(logits, column.contiguous());
}

at::Tensor softmax_gradient_(const at::Tensor& logits, const at::Tensor& maximum, const at::Tensor& sum,
                             const at::Tensor& column, double scale, at::ScalarType type) {
  CAPSTAN_ASSERT(logits.is_contiguous() && column.numel() == logits.size(0));
  static const auto op = find_operator<decltype(softmax_gradient_meta)>("capstan::softmax_gradient_");
  op.call(logits, maximum.contiguous(), sum.contiguous(), column.contiguous(), scale, type);
  return gradient_in(logits, type);
}

at::Tensor softmax_loss_(const at::Tensor& logits, const at::Tensor& column, double scale, at::ScalarType type,
                         const at::Tensor& losses) {
  CAPSTAN_ASSERT(logits.scalar_type() == at::kFloat && logits.dim() == 2 && logits.is_contiguous());
  CAPSTAN_ASSERT(column.scalar_type() == at::kLong && column.dim() == 1 && column.size(0) == logits.size(0));
  CAPSTAN_ASSERT(losses.scalar_type() == at::kFloat && losses.sizes() == column.sizes() && losses.is_contiguous());
  static const auto op = find_operator<decltype(softmax_loss_meta)>("capstan::softmax_loss_");
  op.call(logits, column.contiguous(), scale, type, losses);
  return gradient_in(logits, type);
}

}  // namespace capstan::ops
