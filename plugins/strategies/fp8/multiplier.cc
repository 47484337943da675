#include "multiplier.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/ops/grouped.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

namespace fp8 {

using namespace capstan;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

constexpr auto e4m3 = at::kFloat8_e4m3fn;

using How = std::shared_ptr<const Multiplier>;

/// Carries the layer's through an autograd context.
struct Holder : torch::CustomClassHolder {
  explicit Holder(How layer) : how(std::move(layer)) {}
  How how;
};

c10::IValue capsule(const How& how) { return c10::IValue::make_capsule(c10::make_intrusive<Holder>(how)); }
const How& how_of(AutogradContext* ctx) {
  return c10::static_intrusive_pointer_cast<Holder>(ctx->saved_data["how"].toCapsule())->how;
}

at::Tensor rows_of(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

// Tokens are what the weight's gradient sums over: rows of zeros add nothing.
at::Tensor padded(const at::Tensor& rows) {
  const auto rest = rows.is_cpu() ? 0 : rows.size(0) % multiple;
  return rest == 0 ? rows : at::constant_pad_nd(rows, {0, 0, 0, multiple - rest});
}

void check_pieces(const Multiplier& how, const at::Tensor& weight) {
  const auto out = weight.size(-2), in = weight.size(-1);
  if (out % multiple == 0 && in % multiple == 0) return;
  throw Error(cat("layer ", how.layer, " is split into pieces of ", out, " x ", in,
                  " on this rank: FP8 products take multiples of ", multiple),
              "set a smaller strategy.tensor_parallel.size, or leave the layer out of strategy.fp8.targets");
}

class ProductFunction : public torch::autograd::Function<ProductFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight, const How& how) {
    ctx->saved_data["how"] = capsule(how);
    ctx->saved_data["shape"] = x.sizes();
    const at::AutoDispatchBelowADInplaceOrView guard;  // no view that autograd follows: the result may be written to
    const bool in = how->cuts_inputs(), out = how->cuts_outputs();
    const auto rows = rows_of(x);
    keep(ctx, rows, x.requires_grad() ? weight : at::Tensor(), weight.requires_grad(), *how);
    const auto both = how->scaled({{rows, e4m3, in, false}, {weight, e4m3, in, out}});
    auto shape = x.sizes().vec();
    shape.back() = weight.size(0);
    return product(both[0], both[1], x.scalar_type(), how->fast).view(shape);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto& how = *how_of(ctx);
    const auto saved = ctx->get_saved_variables();
    const bool in = how.cuts_inputs(), out = how.cuts_outputs();
    const auto gradient = rows_of(gradients[0]);
    const auto dtype = gradient.scalar_type();
    variable_list result(3);
    if (ctx->needs_input_grad(0)) {
      const auto both = how.scaled({{gradient, how.gradient, out, false}, {saved[0].t(), e4m3, out, in}});
      result[0] = product(both[0], both[1], dtype, how.fast).view(ctx->saved_data["shape"].toIntVector());
    }
    if (ctx->needs_input_grad(1)) result[1] = weight_gradient(how, gradient, saved[1], saved[2]);
    return result;
  }

 private:
  // What the weight's gradient needs of x is kept as it will be multiplied: a byte an element.
  static void keep(AutogradContext* ctx, const at::Tensor& rows, const at::Tensor& weight, bool trained,
                   const Multiplier& how) {
    if (!trained) return ctx->save_for_backward({weight, at::Tensor(), at::Tensor()});
    if (!how.weight_gradient) return ctx->save_for_backward({weight, rows, at::Tensor()});
    const auto columns = how.scaled({{padded(rows).t(), e4m3, false, how.cuts_inputs()}}).front();
    ctx->save_for_backward({weight, columns.values, columns.scales});
  }

  static at::Tensor weight_gradient(const Multiplier& how, const at::Tensor& gradient, const at::Tensor& x,
                                    const at::Tensor& scales) {
    if (!scales.defined()) return at::mm(gradient.t(), x);
    const auto columns = how.scaled({{padded(gradient).t(), how.gradient, false, how.cuts_outputs()}}).front();
    return product(columns, {x, scales}, gradient.scalar_type(), how.fast);
  }
};

class GroupedProductFunction : public torch::autograd::Function<GroupedProductFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& ends,
                            const How& how) {
    ctx->saved_data["how"] = capsule(how);
    ctx->save_for_backward({weight.requires_grad() ? x : at::Tensor(), weight, ends});
    const bool in = how->cuts_inputs();
    const auto both = how->scaled({{x, e4m3, in, false}, {weight, e4m3, in, false}});
    return grouped_product(both[0], both[1], ends, x.scalar_type(), how->fast);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto& how = *how_of(ctx);
    const auto saved = ctx->get_saved_variables();
    const bool out = how.cuts_outputs();
    const at::Tensor gradient = gradients[0].contiguous();
    variable_list result(4);
    if (ctx->needs_input_grad(0)) {
      const auto both =
          how.scaled({{gradient, how.gradient, out, false}, {saved[1].transpose(1, 2), e4m3, out, false}});
      result[0] = grouped_product(both[0], both[1], saved[2], gradient.scalar_type(), how.fast);
    }
    if (ctx->needs_input_grad(1)) result[1] = ops::grouped_outer(gradient, saved[0], saved[2]);
    return result;
  }
};

bool cuts(const nn::Weight& weight, bool last) {
  const auto& record = weight.records().front();
  const auto inputs = static_cast<std::int64_t>(record.shape.size()) - 1;
  return std::any_of(record.compute.cuts.begin(), record.compute.cuts.end(), [&](const layout::Cut& cut) {
    const bool on_tp = std::find(cut.axes.begin(), cut.axes.end(), layout::Axis::tp) != cut.axes.end();
    return on_tp && (cut.dim == inputs) == last;
  });
}

}  // namespace

bool Multiplier::cuts_inputs() const { return group && cuts(*weight, true); }
bool Multiplier::cuts_outputs() const { return group && cuts(*weight, false); }

std::vector<Scaled> Multiplier::scaled(const std::vector<Operand>& operands) const {
  std::vector<at::Tensor> largest;
  std::vector<at::Tensor> shared;
  for (const auto& operand : operands) {
    largest.push_back(magnitudes(operand.matrix, by_row));
    if (operand.cut || (!by_row && operand.rows_cut)) shared.push_back(largest.back());
  }
  if (!shared.empty()) take_maximum(shared);
  std::vector<Scaled> all;
  for (std::size_t i = 0; i < operands.size(); ++i)
    all.push_back(quantise(operands[i].matrix, scales_for(largest[i], operands[i].format), operands[i].format));
  return all;
}

// In place, by one collective.
void Multiplier::take_maximum(const std::vector<at::Tensor>& magnitudes) const {
  std::vector<at::Tensor> flat;
  for (const auto& each : magnitudes) flat.push_back(each.flatten());
  const auto all = at::cat(flat);
  group->all_reduce(all, comm::ReduceOp::max, cat("all-reduce fp8 ", layer));
  std::int64_t begin = 0;
  for (const auto& each : magnitudes) {
    each.flatten().copy_(all.narrow(0, begin, each.numel()));
    begin += each.numel();
  }
}

at::Tensor Multiplier::multiply(const How& self, const at::Tensor& x, const at::Tensor& weight) {
  check_pieces(*self, weight);
  return ProductFunction::apply(x, weight, self);
}

at::Tensor Multiplier::multiply_grouped(const How& self, const at::Tensor& x, const at::Tensor& weight,
                                        const at::Tensor& ends) {
  check_pieces(*self, weight);
  return GroupedProductFunction::apply(x, weight, ends, self);
}

}  // namespace fp8
