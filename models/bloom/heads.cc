#include "heads.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <capstan/base/error.h>
#include <torch/csrc/autograd/custom_function.h>

#include "operators.h"

namespace bloom {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

class WidenedFunction : public torch::autograd::Function<WidenedFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& fused, const at::Tensor& slopes,
                               const at::Tensor& positions, double scale) {
    const at::AutoDispatchBelowADInplaceOrView guard;  // outputs of their own, no views that autograd follows
    const auto heads = slopes.size(0), dim = fused.size(2) / (3 * heads);
    ctx->saved_data["dim"] = dim;
    static const auto op = find_operator<Widened>("capstan::bloom_heads");
    const at::Tensor parts = fused.view({fused.size(0), fused.size(1), heads, 3, dim});
    const auto [q, k] = op.call(parts, slopes, positions, scale);
    return {q.transpose(1, 2), k.transpose(1, 2), parts.select(3, 2).transpose(1, 2)};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    static const auto op = find_operator<Joined>("capstan::bloom_heads_back");
    const auto by_position = [&](std::size_t i) { return gradients[i].transpose(1, 2); };
    const at::Tensor fused = op.call(by_position(0), by_position(1), by_position(2), ctx->saved_data["dim"].toInt());
    return {fused.view({fused.size(0), fused.size(1), -1}), {}, {}, {}};
  }
};

}  // namespace

WidenedHeads widened_heads(const at::Tensor& fused, const at::Tensor& slopes, const at::Tensor& positions,
                           double scale) {
  CAPSTAN_ASSERT(fused.dim() == 3 && fused.is_contiguous() && slopes.dim() == 1 && slopes.is_contiguous());
  CAPSTAN_ASSERT(slopes.size(0) > 0 && fused.size(2) % (3 * slopes.size(0)) == 0);
  CAPSTAN_ASSERT(slopes.scalar_type() == (fused.scalar_type() == at::kDouble ? at::kDouble : at::kFloat));
  CAPSTAN_ASSERT(positions.dim() == 2 && positions.scalar_type() == at::kLong && positions.device() == fused.device());
  CAPSTAN_ASSERT(positions.size(0) == fused.size(0) && positions.size(1) == fused.size(1));
  const auto parts = WidenedFunction::apply(fused, slopes, positions, scale);
  return {parts[0], parts[1], parts[2]};
}

}  // namespace bloom
