#include "ops/softmax_rows.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <torch/library.h>

namespace capstan::ops {
namespace {

using Statistics = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

Statistics statistics_meta(const at::Tensor& logits, const at::Tensor&) {
  const auto column = [&] { return at::empty({logits.size(0), 1}, logits.options()); };
  return {column(), column(), column()};
}

void gradient_meta(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, double, at::ScalarType) {
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan, m) {
  m.def("softmax_statistics(Tensor logits, Tensor column) -> (Tensor, Tensor, Tensor)");
  m.def(
      "softmax_gradient_(Tensor(a!) logits, Tensor maximum, Tensor sum, Tensor column, float scale, "
      "ScalarType type) -> ()");
}

TORCH_LIBRARY_IMPL(capstan, Meta, m) {
  m.impl("softmax_statistics", &statistics_meta);
  m.impl("softmax_gradient_", &gradient_meta);
}

Statistics softmax_statistics(const at::Tensor& logits, const at::Tensor& column) {
  CAPSTAN_ASSERT(logits.scalar_type() == at::kFloat && logits.dim() == 2 && logits.is_contiguous());
  CAPSTAN_ASSERT(column.scalar_type() == at::kLong && column.numel() == logits.size(0));
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("capstan::softmax_statistics", "")
                             .typed<Statistics(const at::Tensor&, const at::Tensor&)>();
  return op.call(logits, column.contiguous());
}

at::Tensor softmax_gradient_(const at::Tensor& logits, const at::Tensor& maximum, const at::Tensor& sum,
                             const at::Tensor& column, double scale, at::ScalarType type) {
  CAPSTAN_ASSERT(logits.is_contiguous() && column.numel() == logits.size(0));
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("capstan::softmax_gradient_", "")
                             .typed<void(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                         double, at::ScalarType)>();
  op.call(logits, maximum.contiguous(), sum.contiguous(), column.contiguous(), scale, type);
  return logits.view(type).narrow(1, 0, logits.size(1));  // each row's are at its begin
}

}  // namespace capstan::ops
