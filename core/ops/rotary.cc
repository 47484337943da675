#include <capstan/base/error.h>
#include <capstan/ops/rotary.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/operators.h"

namespace capstan::ops {
namespace {

at::Tensor rotary_cpu(const at::Tensor& x, const at::Tensor& positions, at::ArrayRef<double> frequencies,
                      bool inverse) {
  const auto type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto half = x.size(-1) / 2;
  const at::Tensor angle = positions.to(type).unsqueeze(-1) * at::tensor(frequencies, at::TensorOptions(type));
  const at::Tensor cosine = angle.cos().unsqueeze(2);
  const at::Tensor sine = inverse ? -angle.sin().unsqueeze(2) : angle.sin().unsqueeze(2);
  const at::Tensor first = x.narrow(-1, 0, half).to(type), second = x.narrow(-1, half, half).to(type);
  at::Tensor out = at::empty(x.sizes(), x.options());
  out.narrow(-1, 0, half).copy_(first * cosine - second * sine);
  out.narrow(-1, half, half).copy_(second * cosine + first * sine);
  return out;
}

at::Tensor call(const at::Tensor& x, const at::Tensor& positions, at::ArrayRef<double> frequencies, bool inverse) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("capstan::rotary", "").typed<Rotary>();
  return op.call(x, positions, frequencies, inverse);
}

class RotaryFunction : public torch::autograd::Function<RotaryFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const at::Tensor& positions,
                            const std::vector<double>& frequencies) {
    ctx->save_for_backward({positions});
    ctx->saved_data["frequencies"] = frequencies;
    return call(x, positions, frequencies, false);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& gradients) {
    const auto frequencies = ctx->saved_data["frequencies"].toDoubleVector();
    const auto& gradient = gradients[0];
    const auto dense = gradient.stride(-1) == 1 ? gradient : gradient.contiguous();
    return {call(dense, ctx->get_saved_variables()[0], frequencies, true), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CPU, m) { m.impl("rotary", &rotary_cpu); }

at::Tensor rotary(const at::Tensor& x, const at::Tensor& positions, const std::vector<double>& frequencies) {
  CAPSTAN_ASSERT(x.dim() == 4 && x.size(-1) % 2 == 0 && x.size(-1) <= 512 && x.stride(-1) == 1);
  CAPSTAN_ASSERT(static_cast<std::int64_t>(frequencies.size()) * 2 == x.size(-1));
  CAPSTAN_ASSERT(positions.dim() == 2 && positions.scalar_type() == at::kLong && positions.device() == x.device());
  CAPSTAN_ASSERT(positions.size(0) == x.size(0) && positions.size(1) == x.size(1));
  return RotaryFunction::apply(x, positions, frequencies);
}

}  // namespace capstan::ops
