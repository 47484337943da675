#include "ops/add_norm.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>

#include "ops/again.h"
#include "ops/column_sums.h"
#include "ops/operator.h"

namespace capstan::ops {
namespace {

using Results = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

Results add_norm_meta(const at::Tensor& x, const Maybe& y, const at::Tensor&, const Maybe& bias, double, bool) {
  return {y ? room_for(x) : at::Tensor(), room_for(x), bias ? row_numbers(x) : at::Tensor(), row_numbers(x)};
}

/// (x - mean) · rstd in the dtype of sums.
at::Tensor standardised(const at::Tensor& x, const Maybe& mean, const at::Tensor& rstd) {
  const at::Tensor wide = x.to(rstd.scalar_type());
  return (mean ? wide - *mean : wide) * rstd;
}

// What the standardised row is multiplied by.
at::Tensor factor_of(const at::Tensor& weight, bool adds_one) {
  return adds_one ? weight.to(sum_type(weight)) + 1 : weight;
}

/// A forward's tensors, as backward finds them.
struct Kept {
  explicit Kept(const variable_list& saved) : sum(saved[0]), mean(maybe(saved[1])), rstd(saved[2]), weight(saved[3]) {}
  at::Tensor sum;
  Maybe mean;
  at::Tensor rstd, weight;
};

struct Rule {
  double epsilon;
  bool adds_one;
};

class AddNormFunction : public Function<AddNormFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight, const Maybe& y,
                               const Maybe& bias, const Rule& rule) {
    const auto [sum, normed, mean, rstd] = call(x, y, weight, bias, rule);
    const at::Tensor& added = y ? sum : x;
    ctx->save_for_backward({added, mean, rstd, weight, bias.value_or(at::Tensor())});
    ctx->saved_data["has_y"] = y.has_value();
    ctx->saved_data["epsilon"] = rule.epsilon;
    ctx->saved_data["adds_one"] = rule.adds_one;
    ctx->set_materialize_grads(false);
    return {added, normed};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const at::Tensor &residual = gradients[0], &normed = gradients[1];
    const bool has_y = ctx->saved_data["has_y"].toBool();
    if (!normed.defined()) return {residual, {}, has_y ? residual : at::Tensor(), {}, {}};
    const Kept kept(ctx->get_saved_variables());
    variable_list out(5);
    // Autograd counts the tensors that there are: x, weight, then y and bias.
    const std::size_t y = 2, bias = has_y ? 3 : 2;
    if (ctx->needs_input_grad(0) || (has_y && ctx->needs_input_grad(y))) {
      static const auto op = find_operator<decltype(plain_add_norm_backward)>("capstan::add_norm_backward");
      out[0] = op.call(maybe(residual), normed, kept.sum, kept.mean, kept.rstd, kept.weight,
                       ctx->saved_data["adds_one"].toBool());
      if (has_y) out[2] = out[0];
    }
    if (ctx->needs_input_grad(1) || (kept.mean && ctx->needs_input_grad(bias))) {
      const auto [of_weight, of_bias] = norm_weight_gradients(normed, kept.sum, kept.mean, kept.rstd);
      out[1] = of_weight;
      out[3] = of_bias;
    }
    return out;
  }

  // The norm is one of the rounded sum, which is there.
  static at::Tensor again(AutogradContext* ctx) {
    const auto saved = ctx->get_saved_variables();
    return std::get<1>(call(saved[0], std::nullopt, saved[3], maybe(saved[4]),
                            {ctx->saved_data["epsilon"].toDouble(), ctx->saved_data["adds_one"].toBool()}));
  }

 private:
  static Results call(const at::Tensor& x, const Maybe& y, const at::Tensor& weight, const Maybe& bias,
                      const Rule& rule) {
    static const auto op = find_operator<decltype(plain_add_norm)>("capstan::add_norm");
    return op.call(x, y, weight, bias, rule.epsilon, rule.adds_one);
  }
};

}  // namespace

const Again normed_again = again_of<AddNormFunction, 1>();

Results plain_add_norm(const at::Tensor& x, const Maybe& y, const at::Tensor& weight, const Maybe& bias, double epsilon,
                       bool adds_one) {
  const at::Tensor added = y ? x + *y : at::Tensor(), sum = y ? added : x;
  const at::Tensor wide = sum.to(sum_type(x));
  const Maybe mean = bias ? Maybe(wide.mean(-1, true)) : std::nullopt;
  const at::Tensor from_mean = mean ? wide - *mean : wide;
  const at::Tensor rstd = (from_mean.square().mean(-1, true) + epsilon).rsqrt();
  const at::Tensor scaled = from_mean * rstd * factor_of(weight, adds_one);
  return {added, (bias ? scaled + *bias : scaled).to(x.scalar_type()), mean.value_or(at::Tensor()), rstd};
}

// With z the standardised row and g = gradient · weight: rstd (g - mean(g) - z mean(g z)); RMS: without mean(g).
at::Tensor plain_add_norm_backward(const Maybe& residual, const at::Tensor& normed, const at::Tensor& sum,
                                   const Maybe& mean, const at::Tensor& rstd, const at::Tensor& weight, bool adds_one) {
  const at::Tensor z = standardised(sum, mean, rstd), g = normed.to(rstd.scalar_type()) * factor_of(weight, adds_one);
  at::Tensor inner = g - z * (g * z).mean(-1, true);
  if (mean) inner = inner - g.mean(-1, true);
  const at::Tensor own = inner * rstd;
  return (residual ? own + *residual : own).to(sum.scalar_type());
}

TORCH_LIBRARY_FRAGMENT(capstan, m) {
  define(m,
         "add_norm(Tensor x, Tensor? y, Tensor weight, Tensor? bias, float epsilon, bool adds_one) -> (Tensor, Tensor, "
         "Tensor, Tensor)",
         &plain_add_norm, &add_norm_meta);
  define(m,
         "add_norm_backward(Tensor? residual, Tensor normed, Tensor sum, Tensor? mean, Tensor rstd, Tensor weight, "
         "bool adds_one) -> Tensor",
         &plain_add_norm_backward,
         [](const Maybe&, const at::Tensor&, const at::Tensor& sum, const Maybe&, const at::Tensor&, const at::Tensor&,
            bool) { return room_for(sum); });
}

Normed add_norm(const at::Tensor& x, const at::Tensor& y, const NormOf& norm) {
  CAPSTAN_ASSERT(x.dim() >= 1 && norm.weight.dim() == 1 && norm.weight.size(0) == x.size(-1));
  CAPSTAN_ASSERT(norm.weight.scalar_type() == x.scalar_type() && (!y.defined() || y.scalar_type() == x.scalar_type()));
  CAPSTAN_ASSERT(!y.defined() || y.sizes() == x.sizes());
  const auto results =
      AddNormFunction::apply(x, norm.weight, maybe(y), maybe(norm.bias), Rule{norm.epsilon, norm.adds_one});
  return {results[0], results[1]};
}

}  // namespace capstan::ops
