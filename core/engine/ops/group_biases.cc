#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/ops/grouped.h>

#include "ops/operator.h"

namespace capstan::ops {
namespace {

class AddGroupBiasesFunction : public Function<AddGroupBiasesFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& bias,
                            const at::Tensor& group) {
    ctx->save_for_backward({group});
    ctx->saved_data["groups"] = bias.size(0);
    return x + bias.index_select(0, group);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    variable_list out(3);
    out[0] = gradients[0];
    if (ctx->needs_input_grad(1))
      out[1] = group_sums(gradients[0], ctx->get_saved_variables()[0], ctx->saved_data["groups"].toInt());
    return out;
  }
};

}  // namespace

// A product with which rows belong to which group adds in float32 and in a fixed order; index_add_ would add with
// atomics, in the numbers' own type.
at::Tensor group_sums(const at::Tensor& rows, const at::Tensor& group, std::int64_t groups) {
  if (rows.is_cpu()) {
    const auto type = sum_type(rows);
    const auto sums = at::zeros({groups, rows.size(1)}, rows.options().dtype(type));
    return sums.index_add_(0, group, rows.to(type)).to(rows.scalar_type());
  }
  const auto members = at::zeros({groups, rows.size(0)}, rows.options()).scatter_(0, group.unsqueeze(0), 1);
  return members.mm(rows);
}

at::Tensor add_group_biases(const at::Tensor& x, const GroupBiases& biases) {
  const auto &bias = biases.bias, &group = biases.group;
  if (!bias.defined()) return x;
  CAPSTAN_ASSERT(x.dim() == 2 && bias.dim() == 2 && bias.size(1) == x.size(1) && bias.is_contiguous());
  CAPSTAN_ASSERT(bias.scalar_type() == x.scalar_type() && group.sizes() == at::IntArrayRef({x.size(0)}));
  return AddGroupBiasesFunction::apply(x, bias, group);
}

}  // namespace capstan::ops
