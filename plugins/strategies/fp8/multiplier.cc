#include "multiplier.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
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

using Operand = Multiplier::Operand;
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

class ProductFunction : public torch::autograd::Function<ProductFunction> {
 public:
  // `learns`: autograd was on where it was called; here it never is.
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight, const How& how,
                            bool learns) {
    ctx->saved_data["how"] = capsule(how);
    ctx->saved_data["shape"] = x.sizes();
    const at::AutoDispatchBelowADInplaceOrView guard;  // no view that autograd follows: the result may be written to
    const auto rows = rows_of(x);
    const bool in = how->cuts_inputs(), columns = learns && weight.requires_grad() && how->weight_gradient;
    std::vector<Operand> wanted{{rows, e4m3, false, in}};
    if (columns) wanted.push_back({rows, e4m3, true, false, in});
    const auto all = how->with_weight(wanted, weight, false);
    const at::Tensor for_x = x.requires_grad() ? weight : at::Tensor();
    if (columns) {  // what the weight's gradient needs of x, kept as it will be multiplied: a byte an element
      ctx->save_for_backward({for_x, all[1].values, all[1].scales});
    } else {
      ctx->save_for_backward({for_x, weight.requires_grad() ? rows : at::Tensor(), at::Tensor()});
    }
    auto shape = x.sizes().vec();
    shape.back() = weight.size(0);
    return how->product_of(all.front(), all.back(), x.scalar_type(), rows.size(0)).view(shape);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto& how = *how_of(ctx);
    const auto saved = ctx->get_saved_variables();
    const auto gradient = rows_of(gradients[0]);
    const auto dtype = gradient.scalar_type();
    const bool out = how.cuts_outputs(), of_weight = ctx->needs_input_grad(1), in_8_bits = how.weight_gradient;
    const auto of_w = [&](const Quantised& columns) {
      return how.product_of(columns, {saved[1], saved[2]}, dtype, columns.values.size(0));
    };
    std::vector<Operand> wanted;
    if (ctx->needs_input_grad(0)) wanted.push_back({gradient, how.gradient, false, out});
    if (of_weight && in_8_bits) wanted.push_back({gradient, how.gradient, true, false, out});
    variable_list result(4);
    if (of_weight && !in_8_bits) result[1] = at::mm(gradient.t(), saved[1]);
    if (!ctx->needs_input_grad(0)) {
      if (of_weight && in_8_bits) result[1] = of_w(how.quantised(wanted)[0]);
      return result;
    }
    const auto all = how.with_weight(wanted, saved[0], true);
    const auto of_x = how.product_of(all.front(), all.back(), dtype, gradient.size(0));
    result[0] = of_x.view(ctx->saved_data["shape"].toIntVector());
    if (of_weight && in_8_bits) result[1] = of_w(all[1]);
    return result;
  }
};

class GroupedProductFunction : public torch::autograd::Function<GroupedProductFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& ends,
                            const How& how) {
    ctx->saved_data["how"] = capsule(how);
    ctx->save_for_backward({weight.requires_grad() ? x : at::Tensor(), weight, ends});
    const auto both = how->with_weight({{x, e4m3, false, how->cuts_inputs()}}, weight, false);
    return grouped_product(both[0], both[1], ends, x.scalar_type(), how->fast);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto& how = *how_of(ctx);
    const auto saved = ctx->get_saved_variables();
    const at::Tensor gradient = gradients[0].contiguous();
    variable_list result(4);
    if (ctx->needs_input_grad(0)) {
      const auto both = how.with_weight({{gradient, how.gradient, false, how.cuts_outputs()}}, saved[1], true);
      result[0] = grouped_product(both[0], both[1], saved[2], gradient.scalar_type(), how.fast);
    }
    if (ctx->needs_input_grad(1)) result[1] = ops::grouped_outer(gradient, saved[0], saved[2]);
    return result;
  }
};

// As large as the kept ones, without memory: a dry run counts those apart.
Quantised planned(const at::Tensor& weight, bool transposed) {
  const auto rows = transposed ? weight.transpose(-1, -2) : weight;
  const auto one = [&](at::ScalarType type) { return at::empty({1}, weight.options().dtype(type)); };
  return {one(e4m3).expand(rows.sizes()), one(at::kFloat).expand(rows.sizes()).narrow(-1, 0, 1)};
}

bool cuts(const nn::Weight& weight, bool last) {
  const auto& record = weight.records().front();
  const auto inputs = static_cast<std::int64_t>(record.shape.size()) - 1;
  return std::any_of(record.compute.cuts.begin(), record.compute.cuts.end(), [&](const layout::Cut& cut) {
    const bool on_tp = std::find(cut.axes.begin(), cut.axes.end(), layout::Axis::tp) != cut.axes.end();
    return on_tp && (cut.dim == inputs) == last;
  });
}

}  // namespace

at::Tensor Counts::on(c10::Device device) {
  if (device.is_meta()) return {};
  if (!numbers_.defined()) numbers_ = at::zeros({4}, at::TensorOptions().dtype(at::kLong).device(device));
  return numbers_;
}

std::vector<strategy::Figure> Counts::take() {
  const auto taken = numbers_.to(at::kDouble);
  numbers_.zero_();
  return {{"fp8_underflow", taken[0], taken[1]}, {"fp8_nonfinite_rows", taken[2], taken[3]}};
}

bool Multiplier::cuts_inputs() const { return group && cuts(*weight, true); }
bool Multiplier::cuts_outputs() const { return group && cuts(*weight, false); }

std::optional<std::array<std::int64_t, 2>> Multiplier::misfit(const layout::Mesh& mesh, int rank) const {
  const auto sizes = sizes_of();
  std::array<std::int64_t, 2> all{0, 0};
  for (const auto& record : weight->records()) {
    const auto box = record.compute.box(record.shape, mesh, rank);
    if (box.numel() == 0) continue;  // another stage's
    const auto in = box.size.back(), rows = box.numel() / in / (of_experts ? box.size.front() : 1);
    if (scaling == Scaling::block && cuts_outputs() && rows % sizes != 0) return {{rows, in}};
    all = {all[0] + rows, in};
  }
  return all[0] % sizes == 0 && all[1] % sizes == 0 ? std::nullopt : std::optional(all);
}

Rounding Multiplier::rounding(const at::Tensor& of, at::ScalarType format) const {
  const bool is_counted = counts && (!unit || unit->batch().pass.measured);
  return {format, scaling != Scaling::tensor, false, is_counted ? counts->on(of.device()) : at::Tensor()};
}

Quantised Multiplier::swiglu(const at::Tensor& x) const {
  const auto how = rounding(x, e4m3);
  return scaling == Scaling::block ? quantise_swiglu_blocks(x, how.counts) : quantise_swiglu(x, how);
}

Quantised Multiplier::swiglu_backward(const at::Tensor& of_result, const at::Tensor& x) const {
  const auto how = rounding(x, gradient);
  return scaling == Scaling::block ? quantise_swiglu_blocks_backward(of_result, x, how.counts)
                                   : quantise_swiglu_backward(of_result, x, how);
}

at::Tensor Multiplier::product_of(const Quantised& a, const Quantised& b, at::ScalarType dtype,
                                  std::int64_t rows) const {
  if (scaling != Scaling::block) return product(a, b, dtype, fast);
  const auto whole = block_product(a, b, dtype);
  return whole.size(0) == rows ? whole : whole.narrow(0, 0, rows);
}

// A pair of a matrix and its transpose is made by one pass over it.
std::vector<Quantised> Multiplier::in_blocks(const std::vector<Operand>& operands) const {
  std::vector<Quantised> all;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const auto& one = operands[i];
    const auto numbers = one.is_weight ? at::Tensor() : rounding(one.matrix, e4m3).counts;
    const bool pair = i + 1 < operands.size() && operands[i + 1].matrix.is_same(one.matrix);
    if (one.is_weight) {
      all.push_back(quantise_tiles(one.matrix, one.transposed));
    } else if (pair || one.transposed) {
      auto [rows, columns] = quantise_blocks_both(one.matrix, numbers);
      if (pair) all.push_back(rows);
      all.push_back(columns);
      i += pair ? 1 : 0;
    } else {
      all.push_back(quantise_blocks(one.matrix, numbers));
    }
  }
  return all;
}

std::vector<Quantised> Multiplier::quantised(const std::vector<Operand>& operands) const {
  if (scaling == Scaling::block) return in_blocks(operands);
  const bool by_row = scaling == Scaling::row;
  const auto how = [&](const Operand& of) {
    auto rounded = of.is_weight ? Rounding{of.format, by_row} : rounding(of.matrix, of.format);
    rounded.transposed = of.transposed;
    return rounded;
  };
  const auto shared = [&](const Operand& of) { return of.cut || (!by_row && of.rows_cut); };
  std::vector<at::Tensor> largest;
  for (const auto& operand : operands)
    if (shared(operand)) largest.push_back(magnitudes(operand.matrix, how(operand)));
  if (!largest.empty()) take_maximum(largest);
  std::vector<Quantised> all;
  auto next = largest.begin();
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const auto& one = operands[i];
    const bool both = i + 1 < operands.size() && operands[i + 1].matrix.is_same(one.matrix);
    if (both && !shared(one) && !shared(operands[i + 1])) {  // it, and then its transpose
      auto [rows, columns] = quantise_both(one.matrix, how(one));
      all.insert(all.end(), {rows, columns});
      ++i;
    } else {
      all.push_back(quantise(one.matrix, how(one), shared(one) ? *next++ : at::Tensor()));
    }
  }
  return all;
}

Quantised Multiplier::stored_columns(const at::Tensor& of) const {
  if (!frozen_transpose || !Frozen::keeps(*weight)) return stored->columns(of);
  return of.is_meta() ? planned(of, true) : frozen_transpose->of(*weight, [&] { return stored->columns(of); });
}

std::vector<Quantised> Multiplier::with_weight(std::vector<Operand> operands, const at::Tensor& of,
                                               bool transposed) const {
  if (sent && sent->arrives()) {
    auto all = quantised(operands);
    all.push_back(transposed ? sent->columns() : sent->rows());
    return all;
  }
  if (stored) {
    auto all = quantised(operands);
    all.push_back(transposed ? stored_columns(of) : stored->rows(of));
    return all;
  }
  const bool in = cuts_inputs(), out = cuts_outputs();
  const Operand itself{of, e4m3, transposed, transposed ? out : in, transposed ? in : out, true};
  if (!frozen || !Frozen::keeps(*weight)) {
    operands.push_back(itself);
    return quantised(operands);
  }
  auto all = quantised(operands);
  const auto make = [&] { return quantised({itself}).front(); };
  all.push_back(of.is_meta() ? planned(of, transposed) : (transposed ? frozen_transpose : frozen)->of(*weight, make));
  return all;
}

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
  return ProductFunction::apply(x, weight, self, at::GradMode::is_enabled());
}

at::Tensor Multiplier::multiply_grouped(const How& self, const at::Tensor& x, const at::Tensor& weight,
                                        const at::Tensor& ends) {
  return GroupedProductFunction::apply(x, weight, ends, self);
}

}  // namespace fp8
