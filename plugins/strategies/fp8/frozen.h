#pragma once
#include <capstan/nn/weight.h>

#include <cstdint>
#include <functional>

#include "quantise.h"

namespace fp8 {

/// A frozen weight in 8 bits, made when it is first asked for and again whenever the weight's values have changed: its
/// leaf's version says so, which moves when somebody writes to it and when the shard engine fills it.
class Frozen {
 public:
  using Make = std::function<Quantised()>;
  const Quantised& of(const capstan::nn::Weight& weight, const Make& make);

  /// Is the weight frozen, and its memory this rank's for the whole run? One that is gathered for each use, or sent up
  /// from host memory, is quantised for each use: to keep it would undo what that saves. Known once the shard engine
  /// has planned.
  static bool keeps(const capstan::nn::Weight& weight);

 private:
  Quantised made_;
  const void* leaf_ = nullptr;
  std::uint32_t version_ = 0;
};

}  // namespace fp8
