#pragma once
#include <ATen/ATen.h>
#include <capstan/nn/weight.h>

#include <memory>
#include <string>
#include <vector>

namespace capstan::testing {

/// Numbers of order 1 without a pattern that a sum could hide.
inline at::Tensor numbers(const std::vector<std::int64_t>& shape, double phase) {
  return (at::arange(layout::numel(shape), at::kDouble) * 1.7 + phase).sin().mul(2).view(shape);
}

/// A weight of one record that holds `value`.
inline nn::WeightPtr bound(const std::string& name, const at::Tensor& value) {
  auto weight = std::make_shared<nn::Weight>(
      std::vector<layout::Param>{nn::record(name, value.sizes().vec(), layout::Init::zeros(), true)});
  weight->bind(value);
  return weight;
}

inline double difference(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

}  // namespace capstan::testing
