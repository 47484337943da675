#include <capstan/base/error.h>
#include <capstan/ops/grouped.h>

#include "ops/combine_rows.h"
#include "ops/operator.h"
#include "ops/weight_gradients.h"

namespace capstan::ops {
namespace {

/// Rows in the mean from which on a group's own product is faster than its part of the grouped one.
constexpr std::int64_t many_rows = 512;

/// Does the grouped kernel take it? It needs rows whose bytes are a multiple of 16.
bool is_one_product(const at::Tensor& x, std::int64_t other_columns, const at::Tensor& ends) {
  if (ends.is_cpu() && x.size(0) >= ends.size(0) * many_rows) return false;
  return (x.is_cuda() || x.is_meta()) && x.scalar_type() == at::kBFloat16 && x.size(1) % 8 == 0 &&
         other_columns % 8 == 0;
}

/// Brings `ends` to the device of x, as the grouped kernel takes them.
at::Tensor beside(const at::Tensor& x, const at::Tensor& ends) {
  return ends.device() == x.device() ? ends : ends.to(x.device(), /*non_blocking=*/true);
}

/// body(group, first row, rows) for each group.
template <class Body>
void each_group(const at::Tensor& ends, const Body& body) {
  const at::Tensor host = ends.cpu();
  const auto* end = host.const_data_ptr<std::int32_t>();
  std::int64_t begin = 0;
  for (std::int64_t group = 0; group < host.numel(); ++group) {
    body(group, begin, end[group] - begin);
    begin = end[group];
  }
}

/// Rows [T, k] times each group's matrix [E, k, n]: [T, n].
at::Tensor rows_product(const at::Tensor& rows, const at::Tensor& matrices, const at::Tensor& ends) {
  if (rows.size(0) > 0 && is_one_product(rows, matrices.size(2), ends))
    return at::_grouped_mm(rows, matrices, beside(rows, ends));
  at::Tensor out = at::empty({rows.size(0), matrices.size(2)}, rows.options());
  if (rows.is_meta() || rows.size(0) == 0) return out;
  each_group(ends, [&](std::int64_t group, std::int64_t begin, std::int64_t count) {
    if (count == 0) return;
    at::Tensor part = out.narrow(0, begin, count);
    at::mm_out(part, rows.narrow(0, begin, count), matrices[group]);
  });
  return out;
}

class GroupedLinearFunction : public Function<GroupedLinearFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& ends) {
    // Only the weight's gradient reads x.
    ctx->save_for_backward({weight.requires_grad() ? x : at::Tensor(), weight, ends});
    return rows_product(x, weight.transpose(1, 2), ends);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor gradient = gradients[0].contiguous();
    variable_list out(3);
    if (ctx->needs_input_grad(0)) out[0] = rows_product(gradient, saved[1], saved[2]);
    if (ctx->needs_input_grad(1)) {
      out[1] = weight_gradient(
          1, [gradient, in = saved[0].detach(), ends = saved[2]] { return grouped_outer(gradient, in, ends); });
    }
    return out;
  }
};

class PermuteRowsFunction : public Function<PermuteRowsFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& index,
                            const at::Tensor& inverse, std::int64_t copies) {
    ctx->save_for_backward({inverse});
    ctx->saved_data["copies"] = copies;
    return x.index_select(0, copies == 1 ? index : index.floor_divide(copies));
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto copies = ctx->saved_data["copies"].toInt();
    const at::Tensor inverse = ctx->get_saved_variables()[0];
    if (copies > 1 && !gradients[0].is_cpu())
      return {sum_copies(gradients[0], inverse, copies), at::Tensor(), at::Tensor(), at::Tensor()};
    at::Tensor gradient = gradients[0].index_select(0, inverse);
    if (copies > 1) gradient = gradient.view({-1, copies, gradient.size(1)}).sum(1);
    return {gradient, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor grouped_outer(const at::Tensor& a, const at::Tensor& b, const at::Tensor& ends) {
  if (a.size(0) > 0 && is_one_product(a, b.size(1), ends)) return at::_grouped_mm(a.t(), b, beside(a, ends));
  at::Tensor out = at::empty({ends.size(0), a.size(1), b.size(1)}, a.options());
  if (a.is_meta()) return out;
  each_group(ends, [&](std::int64_t group, std::int64_t begin, std::int64_t count) {
    at::Tensor part = out[group];
    if (count == 0) {
      part.zero_();
    } else {
      at::mm_out(part, a.narrow(0, begin, count).t(), b.narrow(0, begin, count));
    }
  });
  return out;
}

at::Tensor grouped_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& ends) {
  CAPSTAN_ASSERT(x.dim() == 2 && weight.dim() == 3 && ends.dim() == 1);
  CAPSTAN_ASSERT(x.size(1) == weight.size(2) && weight.size(0) == ends.size(0));
  CAPSTAN_ASSERT(x.scalar_type() == weight.scalar_type() && ends.scalar_type() == at::kInt);
  return GroupedLinearFunction::apply(x, weight, ends);
}

at::Tensor permute_rows(const at::Tensor& x, const at::Tensor& index, const at::Tensor& inverse, std::int64_t copies) {
  CAPSTAN_ASSERT(x.dim() == 2 && copies >= 1 && index.numel() == x.size(0) * copies);
  CAPSTAN_ASSERT(inverse.numel() == index.numel());
  return PermuteRowsFunction::apply(x, index, inverse, copies);
}

}  // namespace capstan::ops
