#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/decoder/decoder.h>

#include <memory>
#include <optional>
#include <string>

namespace capstan::decoder {

/// With which a norm of a decoder multiplies by one.
layout::Init initial_factor(const Spec& spec);

/// `module` of a block whose records begin with `block`, or the empty name of none.
inline std::string in_block(const std::string& block, const std::string& module, bool wanted) {
  return wanted ? block + module : std::string();
}

/// The norm that the spec asks for, or the model's own in its place, or none.
class StatesNorm {
 public:
  /// `module`: what its records are called; empty: there is none.
  StatesNorm(nn::Layer& parent, const std::string& name, const Spec& spec, const std::string& module);
  /// [..., hidden] -> [..., hidden]; x itself where there is none.
  at::Tensor forward(const at::Tensor& x) const;
  /// {x + y, its norm}; y undefined: {x, its norm}.
  nn::SumAndNorm forward_sum(const at::Tensor& x, const at::Tensor& y) const;

 private:
  std::unique_ptr<Norm> own_;
  std::optional<nn::LayerNorm> layer_;
  std::optional<nn::RmsNorm> rms_;
};

}  // namespace capstan::decoder
