#include "scaled.h"

#include <ATen/ATen.h>
#include <capstan/ops/grouped.h>

#include <cstdint>

namespace fp8 {
namespace {

using capstan::ops::Quantised;

at::ScalarType wide(at::ScalarType dtype) { return dtype == at::kDouble ? at::kDouble : at::kFloat; }

at::Tensor unscaled(const Quantised& x, at::ScalarType dtype) { return x.values.to(dtype).mul(x.scales.to(dtype)); }

// For a prediction of time, which knows the products that ATen makes: one of 16 bits, on the slow side, counts as such.
at::Tensor without_memory(const at::Tensor& x, at::ScalarType dtype) {
  return at::empty({1}, x.options().dtype(dtype)).expand(x.sizes());
}

}  // namespace

at::Tensor product(const Quantised& a, const Quantised& b, at::ScalarType dtype, bool fast) {
  if (a.values.is_meta()) return at::mm(without_memory(a.values, dtype), without_memory(b.values, dtype).t());
  if (a.values.is_cuda()) return at::_scaled_mm(a.values, b.values.t(), a.scales, b.scales.t(), {}, {}, dtype, fast);
  return at::mm(unscaled(a, wide(dtype)), unscaled(b, wide(dtype)).t()).to(dtype);
}

at::Tensor grouped_product(const Quantised& a, const Quantised& b, const at::Tensor& ends, at::ScalarType dtype,
                           bool fast) {
  if (a.values.is_meta())
    return capstan::ops::grouped_linear(without_memory(a.values, dtype), without_memory(b.values, dtype), ends);
  at::Tensor out = at::empty({a.values.size(0), b.values.size(1)}, a.values.options().dtype(dtype));
  if (a.values.size(0) == 0) return out;
  if (a.values.is_cuda()) {
    return at::_scaled_grouped_mm(a.values, b.values.transpose(1, 2), a.scales.squeeze(1), b.scales.squeeze(2), ends,
                                  {}, {}, dtype, fast);
  }
  const at::Tensor host = ends.cpu();
  std::int64_t begin = 0;
  for (std::int64_t group = 0; group < host.numel(); ++group) {
    const std::int64_t end = host.const_data_ptr<std::int32_t>()[group];
    if (end > begin) {
      const Quantised rows{a.values.slice(0, begin, end), a.scales.slice(0, begin, end)};
      out.slice(0, begin, end).copy_(product(rows, {b.values[group], b.scales[group]}, dtype, fast));
    }
    begin = end;
  }
  return out;
}

}  // namespace fp8
