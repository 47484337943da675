#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <capstan/base/error.h>
#include <capstan/ops/segment_attention.h>

#include <algorithm>

#include "ops/operator.h"

namespace capstan::ops {
// How many columns of a head the kernel of `like`'s GPU takes at most; 0: it has none.
TORCH_LIBRARY_FRAGMENT(capstan, m) { m.def("segment_columns(Tensor like) -> int"); }

bool has_segment_attention(const at::Tensor& x, std::int64_t columns) {
  constexpr std::int64_t multiple = 8;
  if ((x.scalar_type() != at::kBFloat16 && x.scalar_type() != at::kHalf) || columns % multiple != 0) return false;
  constexpr std::int64_t newest = 256;
  if (x.is_cpu() || x.is_meta()) return x.is_meta() && columns <= newest;
  static const auto op = find_operator<std::int64_t(const at::Tensor&)>("capstan::segment_columns");
  const at::AutoDispatchBelowADInplaceOrView guard;  // a question about x, not a function of it
  return columns <= op.call(x);
}

namespace {

struct Window {
  std::optional<std::int64_t> before, after;
  explicit Window(const SegmentAttention& how) {
    if (!how.window) return;
    before = *how.window - 1;
    after = 0;
  }
};

auto flash(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const SegmentAttention& how) {
  const Window window(how);
  return at::_flash_attention_forward(q, k, v, how.bounds, how.bounds, how.longest, how.longest, /*dropout_p=*/0.0,
                                      /*is_causal=*/true, /*return_debug_mask=*/false, how.scale, window.before,
                                      window.after);
}

// A sink joins the sum of each softmax of its head. The kernel's backward needs no more of the softmax than its output
// and the logarithm of its sum, so that it is right with those that the sinks have changed.
class SinksFunction : public Function<SinksFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const at::Tensor& sinks, const SegmentAttention& how) {
    const auto [without, keys, seed, offset, mask] = flash(q, k, v, how);
    const auto sums = at::logaddexp(keys, sinks.to(at::kFloat).unsqueeze(1));  // [heads, T]
    auto out = room_for(without);
    at::mul_out(out, without, (keys - sums).exp().t().unsqueeze(-1));
    ctx->save_for_backward({q, k, v, sinks, out, sums, how.bounds, seed, offset});
    ctx->saved_data["longest"] = how.longest;
    ctx->saved_data["scale"] = how.scale;
    ctx->saved_data["window"] = how.window;
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const auto &sinks = saved[3], &out = saved[4], &sums = saved[5], &bounds = saved[6];
    const SegmentAttention how{bounds, ctx->saved_data["longest"].toInt(), ctx->saved_data["scale"].toDouble(),
                               ctx->saved_data["window"].toOptional<std::int64_t>()};
    const Window window(how);
    const auto gradient = gradients[0].contiguous();
    const auto [of_q, of_k, of_v] = at::_flash_attention_backward(
        gradient, saved[0], saved[1], saved[2], out, sums, bounds, bounds, how.longest, how.longest, /*dropout_p=*/0.0,
        /*is_causal=*/true, saved[7], saved[8], how.scale, window.before, window.after);
    if (!ctx->needs_input_grad(3)) return {of_q, of_k, of_v, {}, {}};
    const auto share = (sinks.to(at::kFloat).unsqueeze(1) - sums).exp();
    const auto of_sinks = share.mul((gradient.to(at::kFloat) * out).sum(-1).t()).sum(1).neg();
    return {of_q, of_k, of_v, of_sinks.to(sinks.scalar_type()), {}};
  }
};

}  // namespace

at::Tensor segment_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const SegmentAttention& how_asked) {
  CAPSTAN_ASSERT(has_segment_attention(q, q.size(-1)) && q.dim() == 3 && how_asked.bounds.scalar_type() == at::kInt);
  CAPSTAN_ASSERT(k.size(-1) == q.size(-1) && v.size(-1) <= q.size(-1) && q.size(1) % k.size(1) == 0);
  const auto missing = q.size(-1) - v.size(-1);
  const auto values = missing == 0 ? v : at::constant_pad_nd(v, {0, missing});
  auto how = how_asked;
  how.longest = std::max<std::int64_t>(how.longest, 2);  // one query would take another way, that of decoding
  const auto out =
      how.sinks.defined() ? SinksFunction::apply(q, k, values, how.sinks, how) : std::get<0>(flash(q, k, values, how));
  return missing == 0 ? out : out.narrow(-1, 0, v.size(-1));
}

}  // namespace capstan::ops
