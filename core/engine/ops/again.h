#pragma once
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>
#include <memory>
#include <typeinfo>

namespace capstan::ops {

/// Results of one kind of operation, which its node of autograd computes again, in the same bits, from what it keeps
/// anyway: a norm from its sum, an activation from what goes into it.
struct Again {
  bool (*makes)(const torch::autograd::Node& node, std::uint32_t output);  ///< is it one of this operation's?
  at::Tensor (*compute)(torch::autograd::Node& node);  ///< as long as the node's own backward has not run
};

/// For output `number` of a Function that has `static at::Tensor again(AutogradContext*)`.
template <class Function, std::uint32_t number = 0>
constexpr Again again_of() {
  using Node = torch::autograd::CppNode<Function>;
  return {[](const torch::autograd::Node& node, std::uint32_t output) {
            return output == number && typeid(node) == typeid(Node);
          },
          [](torch::autograd::Node& node) {
            const at::NoGradGuard no_grad;
            return Function::again(&static_cast<Node&>(node).ctx_);
          }};
}

/// The operations that are cheap compared with a product.
extern const Again normed_again, activation_again;

/// What a product's backward needs of its input: the input itself, or the node that computes it again. The node's own
/// backward comes later, so that nothing is kept for this.
class InputForBackward {
 public:
  /// `x` undefined: nothing is needed.
  InputForBackward(torch::autograd::AutogradContext& ctx, const at::Tensor& x);
  /// What to save for backward; undefined: it is computed again.
  const at::Tensor& saved() const { return saved_; }
  /// In backward: `saved` as it was saved, or the same bits again.
  static at::Tensor of(torch::autograd::AutogradContext& ctx, const at::Tensor& saved);

 private:
  at::Tensor saved_;
};

}  // namespace capstan::ops
