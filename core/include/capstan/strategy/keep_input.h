#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/model.h>

#include <ATen/core/Tensor.h>

#include <functional>
#include <utility>

CAPSTAN_BEGIN_NAMESPACE
namespace strategy {

/// Where the input of what is recomputed waits for backward. Called in forward, before the computation; what it returns
/// is called once, in backward, for a tensor of the same values, shape and strides. The input's memory is free when
/// neither it nor the computation holds the input any more. Both are called on the thread that computes, with its
/// stream current.
using KeepInput = std::function<std::function<at::Tensor()>(const at::Tensor& input)>;

/// As recomputed(body, input), with an input that waits where `keep` says; empty: where it is.
at::Tensor recomputed(const nn::Region::Body& body, const at::Tensor& input, const KeepInput& keep);

/// What a strategy adds to a unit that it recomputes as a whole: says where the states that come into the unit wait.
/// Belongs to the strategy, as long as the unit is used.
class InputKeeper : public nn::Layer {
 public:
  InputKeeper(nn::Unit& unit, KeepInput how) : Layer(unit, "input_keeper"), keep(std::move(how)) {}
  ~InputKeeper() override;
  const KeepInput keep;
};

}  // namespace strategy
CAPSTAN_END_NAMESPACE
