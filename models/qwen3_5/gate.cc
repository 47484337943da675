#include "gate.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "operators.h"
#include "tensors.h"

namespace qwen3_5 {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool has_gate(const at::Tensor& x, const at::Tensor& z) {
  return is_for_kernels(x) && x.sizes() == z.sizes() && x.scalar_type() == z.scalar_type();
}

class GateFunction : public torch::autograd::Function<GateFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& z) {
    ctx->save_for_backward({x, z});
    if (has_gate(x, z)) {
      static const auto op = find_operator<Gate>("capstan::silu_gate");
      return op.call(x, z);
    }
    const auto type = sum_type(x);
    return (x.to(type) * at::silu(z.to(type))).to(x.scalar_type());
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    if (has_gate(saved[0], saved[1])) {
      static const auto op = find_operator<GateBack>("capstan::silu_gate_back");
      const auto [of_x, of_z] = op.call(gradients[0], saved[0], saved[1]);
      return {of_x, of_z};
    }
    const auto type = sum_type(saved[0]);
    const auto gradient = gradients[0].to(type), z = saved[1].to(type);
    const auto of_z = at::silu_backward(gradient * saved[0].to(type), z);
    return {(gradient * at::silu(z)).to(saved[0].scalar_type()), of_z.to(saved[1].scalar_type())};
  }
};

}  // namespace

at::Tensor gated_by(const at::Tensor& x, const at::Tensor& z) { return GateFunction::apply(x, z); }

}  // namespace qwen3_5
