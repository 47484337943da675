// Slices as the engine makes them, for tests that call the rule themselves.
#pragma once
#include <ATen/ATen.h>
#include <capstan/optimizer.h>

#include <memory>
#include <string>
#include <vector>

#include "plugins/optimizers/adam8bit/adam8bit.h"

namespace adam8bit_test {

using capstan::optimizer::Slice;

inline capstan::layout::Param record(const std::vector<std::int64_t>& shape) {
  return capstan::nn::record("h.weight", shape, capstan::layout::Init::zeros(), true);
}

/// A rule with these options.
inline adam8bit::Adam8bit rule(const std::vector<double>& betas = {0.9, 0.98}) {
  capstan::config::Options<adam8bit::Adam8bitOptions> options;
  options.derive(&adam8bit::Adam8bitOptions::betas, betas);
  return adam8bit::Adam8bit(std::move(options));
}

/// A record that is one slice: what the rule asks for, zero before the first update.
struct One {
  capstan::nn::Weight weight;
  Slice slice;

  One(const adam8bit::Adam8bit& rule, const std::vector<std::int64_t>& shape, const at::Tensor& master)
      : weight({record(shape)}) {
    slice.weight = &weight;
    slice.record = &weight.records().front();
    slice.master = master.flatten().clone();
    slice.grad = at::zeros_like(slice.master);
    slice.lr = 1e-2;
    slice.weight_decay = 0.1;
    for (const auto& state : rule.states(*slice.record)) {
      const auto n = (slice.master.numel() + state.block - 1) / state.block;
      slice.state.push_back(at::zeros({n}, master.options().dtype(state.dtype.value_or(master.scalar_type()))));
    }
  }
  One(const One&) = delete;
  One& operator=(const One&) = delete;

  /// Copies of all that an update may change.
  std::vector<at::Tensor> all() const {
    std::vector<at::Tensor> tensors{slice.master.clone()};
    for (const auto& state : slice.state) tensors.push_back(state.clone());
    if (slice.copy.defined()) tensors.push_back(slice.copy.clone());
    return tensors;
  }
};

inline capstan::optimizer::Update step(std::int64_t count, double grad_scale = 1, bool skips = false,
                                       c10::Device device = c10::Device(at::kCPU)) {
  const auto number = [&](double value, at::ScalarType type) {
    return at::full({}, value, at::TensorOptions(device).dtype(type));
  };
  return {number(static_cast<double>(count), at::kDouble), number(grad_scale, at::kFloat),
          number(skips ? 1 : 0, at::kFloat)};
}

inline void apply(adam8bit::Adam8bit& rule, One& one, const capstan::optimizer::Update& update) {
  std::vector<Slice> slices{one.slice};
  rule.apply(slices, update);
}

inline bool same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].scalar_type() != b[i].scalar_type() || !at::equal(a[i].cpu(), b[i].cpu())) return false;
  }
  return true;
}

/// Numbers of many magnitudes and both signs, different in every step.
inline at::Tensor gradients(std::int64_t n, std::int64_t number) {
  const auto i = at::arange(n, at::kDouble);
  return (i * 1.7 + static_cast<double>(number)).sin() * (i * 0.37 + static_cast<double>(number)).sin().mul(8).exp2();
}

}  // namespace adam8bit_test
