#include "ops/scaled.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>

#include "ops/operator.h"

namespace capstan::ops {
namespace {

// The plain reference. (A 16-bit tensor times a scalar tensor would round the scalar to 16 bits first: the same error
// in every element.)
at::Tensor plain_scaled(const at::Tensor& x, const at::Tensor& factor, at::ScalarType type) {
  at::Tensor out = at::empty(x.sizes(), x.options().dtype(type));
  at::mul_out(out, x.to(factor.scalar_type()), factor);
  return out;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan, m) { m.def("scaled(Tensor x, Tensor factor, ScalarType type) -> Tensor"); }

at::Tensor scaled(const at::Tensor& x, const at::Tensor& factor, at::ScalarType type) {
  CAPSTAN_ASSERT(factor.numel() == 1 && factor.device() == x.device());
  const bool narrows = x.scalar_type() == at::kFloat && factor.scalar_type() == at::kFloat &&
                       (type == at::kBFloat16 || type == at::kHalf);
  if (!x.is_cuda() || !narrows || !x.is_contiguous()) return plain_scaled(x, factor, type);
  static const auto op = find_operator<decltype(plain_scaled)>("capstan::scaled");
  return op.call(x, factor, type);
}

}  // namespace capstan::ops
