#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <capstan/base/export.h>
#include <torch/csrc/autograd/edge.h>

#include <cstdint>
#include <functional>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// Gradients of weights that backward has left to later.
class WeightGradients {
 public:
  /// Makes a gradient of what it holds: a product's input and the gradient of its result.
  using Product = std::function<at::Tensor()>;
  void add(torch::autograd::Edge weight, Product product);
  /// Computes them and adds them to their leaves, as backward would have. Nothing is held afterwards.
  void compute();

 private:
  struct One {
    torch::autograd::Edge weight;  ///< where backward would have sent the gradient
    Product product;
  };
  std::vector<One> all_;
};

/// While it lives, backward leaves gradients of weights in what `where` returns when it has come to them; null: they
/// are computed at once. It holds for backward that this thread starts, whichever thread LibTorch runs it on.
class LeaveWeightGradients {
 public:
  explicit LeaveWeightGradients(std::function<WeightGradients*()> where);

 private:
  c10::DebugInfoGuard guard_;
};

/// For a product's backward: the gradient of its input `number`, which is a weight; undefined if it is left to later.
at::Tensor weight_gradient(std::uint32_t number, WeightGradients::Product product);

}  // namespace ops
CAPSTAN_END_NAMESPACE
