#include "ops/operators.h"

#include <torch/library.h>

#include "ops/adamw.h"

namespace capstan::ops {
namespace {

void fill_normal_meta(const at::Tensor&, double, double, std::int64_t, at::IntArrayRef, at::IntArrayRef) {}

at::Tensor dropout_meta(const at::Tensor& x, double, std::int64_t, std::int64_t, const std::optional<at::Tensor>&,
                        const at::Tensor&, at::IntArrayRef, at::IntArrayRef) {
  return at::empty_like(x, at::MemoryFormat::Contiguous);
}

void checksums_meta(const at::Tensor&, at::TensorList) {}

void squared_norms_meta(const at::Tensor&, at::TensorList, bool) {}

at::Tensor rotary_meta(const at::Tensor& x, const at::Tensor&, at::ArrayRef<double>, bool) {
  return at::empty(x.sizes(), x.options());
}

at::Tensor swiglu_meta(const at::Tensor& x) {
  auto shape = x.sizes().vec();
  shape.back() /= 2;
  return at::empty(shape, x.options());
}

// For tools/bench/offload.py: lr, beta1, beta2, decay, eps, count, scale.
void adamw_cpu(const at::Tensor& master, const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq,
               const at::Tensor& grad, const std::optional<at::Tensor>& copy, at::ArrayRef<double> step) {
  constexpr std::size_t numbers = 7;
  TORCH_CHECK(step.size() == numbers, "capstan::adamw_ takes ", numbers, " numbers");
  adamw_(master, exp_avg, exp_avg_sq, grad, copy.value_or(at::Tensor()),
         {step[0], step[1], step[2], step[3], step[4], step[5], static_cast<float>(step[numbers - 1])});
}

at::Tensor swiglu_backward_meta(const at::Tensor&, const at::Tensor& x) { return at::empty(x.sizes(), x.options()); }

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan, m) {
  m.def("fill_normal(Tensor(a!) out, float mean, float std, int key, int[] logical_shape, int[] offsets) -> ()");
  m.def(
      "dropout(Tensor x, float p, int key, int step, Tensor? device_step, Tensor sample_ids, int[] row_shape, "
      "int[] row_offset) -> Tensor");
  m.def("squared_norms(Tensor(a!) out, Tensor[] xs, bool accumulate) -> ()");
  m.def("checksums(Tensor(a!) out, Tensor[] xs) -> ()");
  m.def("pinned_bytes(int bytes, Tensor on_device) -> Tensor");
  m.def("rotary(Tensor x, Tensor positions, float[] frequencies, bool inverse) -> Tensor");
  m.def("swiglu(Tensor x) -> Tensor");
  m.def(
      "adamw_(Tensor(a!) master, Tensor(b!) exp_avg, Tensor(c!) exp_avg_sq, Tensor grad, Tensor(d!)? copy, "
      "float[] step) -> ()");
  m.def("swiglu_backward(Tensor gradient, Tensor x) -> Tensor");
  m.def("swiglu_both_(Tensor(a!) gradient, Tensor x) -> Tensor");
}

TORCH_LIBRARY_IMPL(capstan, CPU, m) { m.impl("adamw_", &adamw_cpu); }

TORCH_LIBRARY_IMPL(capstan, Meta, m) {
  m.impl("fill_normal", &fill_normal_meta);
  m.impl("dropout", &dropout_meta);
  m.impl("squared_norms", &squared_norms_meta);
  m.impl("checksums", &checksums_meta);
  m.impl("rotary", &rotary_meta);
  m.impl("swiglu", &swiglu_meta);
  m.impl("swiglu_backward", &swiglu_backward_meta);
  m.impl("swiglu_both_", &swiglu_backward_meta);
}

}  // namespace capstan::ops
