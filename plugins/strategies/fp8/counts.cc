#include "counts.h"

#include <ATen/ATen.h>

namespace fp8 {

at::Tensor Counts::on(c10::Device device) {
  if (device.is_meta()) return {};
  if (!numbers_.defined()) numbers_ = at::zeros({4}, at::TensorOptions().dtype(at::kLong).device(device));
  return numbers_;
}

std::vector<capstan::strategy::Figure> Counts::take() {
  const auto taken = numbers_.to(at::kDouble);
  numbers_.zero_();
  return {{"fp8_underflow", taken[0], taken[1]}, {"fp8_nonfinite_rows", taken[2], taken[3]}};
}

}  // namespace fp8
