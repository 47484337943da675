#include "ops/alibi_attention.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/meta_work.h"
#include "ops/operators.h"
#include "ops/trial.h"

namespace capstan::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The plain reference of the GPU's kernel.
at::Tensor alibi_bias_cpu(const at::Tensor& slopes, std::int64_t length, at::ScalarType type) {
  const at::Tensor place = at::arange(length, slopes.options());
  const at::Tensor distance = (place.unsqueeze(0) - place.unsqueeze(1)).clamp_max(0);
  return (slopes.view({1, -1, 1, 1}) * distance).to(type);
}

at::Tensor alibi_bias_meta(const at::Tensor& slopes, std::int64_t length, at::ScalarType type) {
  return at::empty({1, slopes.size(0), length, length}, slopes.options().dtype(type));
}

bool takes_bias_cpu(const at::Tensor&) { return false; }
bool takes_bias_meta(const at::Tensor&) { return on_trial("bias"); }

/// q, k and v [B, heads, S, dim] in the memory of a projection.
struct Projected {
  at::Tensor q, k, v;
  Projected(const at::Tensor& fused, std::int64_t heads) {
    const auto parts = fused.view({fused.size(0), fused.size(1), heads, 3, -1});
    q = parts.select(3, 0).transpose(1, 2);
    k = parts.select(3, 1).transpose(1, 2);
    v = parts.select(3, 2).transpose(1, 2);
  }
};

at::Tensor by_position(const at::Tensor& heads) {
  return at::empty({heads.size(0), heads.size(2), heads.size(1), heads.size(3)}, heads.options()).transpose(1, 2);
}

/// What attention gives and keeps.
struct Attended {
  at::Tensor out, sums, seed, offset;
};

Attended attend(const Projected& in, const at::Tensor& bias, double scale) {
  if (!in.q.is_meta()) {
    const auto all = at::_scaled_dot_product_cudnn_attention(in.q, in.k, in.v, bias, /*compute_log_sumexp=*/true, 0.0,
                                                             /*is_causal=*/true, /*return_debug_mask=*/false, scale);
    return {std::get<0>(all), std::get<1>(all), std::get<6>(all), std::get<7>(all)};
  }
  MetaWork::attend({in.q.size(0) * in.q.size(1), in.q.size(2), in.k.size(2), in.q.size(3), true}, false);
  return {by_position(in.q), at::empty(in.q.sizes().slice(0, 3), in.q.options().dtype(at::kFloat)), {}, {}};
}

variable_list attend_backward(const at::Tensor& gradient, const Projected& in, const Attended& kept,
                              const at::Tensor& bias, double scale) {
  const auto length = in.q.size(2);
  if (!in.q.is_meta()) {
    const auto [q, k, v] = at::_scaled_dot_product_cudnn_attention_backward(
        gradient, in.q, in.k, in.v, kept.out, kept.sums, kept.seed, kept.offset, bias, {}, {}, length, length, 0.0,
        /*is_causal=*/true, scale);
    return {q, k, v};
  }
  MetaWork::attend({in.q.size(0) * in.q.size(1), length, length, in.q.size(3), true}, true);
  const auto wide = in.q.options().dtype(at::kFloat);  // a number for each query, and their gradient
  const at::Tensor dots = at::empty(in.q.sizes().slice(0, 3), wide), of_q = at::empty(in.q.sizes(), wide);
  return {by_position(in.q), by_position(in.k), by_position(in.v)};
}

class AlibiAttentionFunction : public torch::autograd::Function<AlibiAttentionFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& fused, const at::Tensor& slopes, double scale) {
    const at::AutoDispatchBelowADInplaceOrView guard;  // an output of its own, no views that autograd follows
    const Projected in(fused, slopes.size(0));
    auto [out, sums, seed, offset] = attend(in, alibi_bias(slopes, fused.size(1), fused.scalar_type()), scale);
    ctx->save_for_backward({fused, slopes, out, sums, seed, offset});
    ctx->saved_data["scale"] = scale;
    return out;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    static const auto join =
        c10::Dispatcher::singleton()
            .findSchemaOrThrow("capstan::alibi_heads_backward", "")
            .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, std::int64_t)>();
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &fused = saved[0], &slopes = saved[1];
    const Projected in(fused, slopes.size(0));
    const auto parts =
        attend_backward(gradients[0], in, {saved[2], saved[3], saved[4], saved[5]},
                        alibi_bias(slopes, fused.size(1), fused.scalar_type()), ctx->saved_data["scale"].toDouble());
    const auto of_fused =
        join.call(parts[0].transpose(1, 2), parts[1].transpose(1, 2), parts[2].transpose(1, 2), in.q.size(3));
    return {of_fused.view(fused.sizes()), {}, {}};
  }
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan, m) {
  m.def("alibi_bias(Tensor slopes, int length, ScalarType type) -> Tensor");
  m.def("takes_alibi_bias(Tensor fused) -> bool");
}

TORCH_LIBRARY_IMPL(capstan, CPU, m) {
  m.impl("alibi_bias", &alibi_bias_cpu);
  m.impl("takes_alibi_bias", &takes_bias_cpu);
}

TORCH_LIBRARY_IMPL(capstan, Meta, m) {
  m.impl("alibi_bias", &alibi_bias_meta);
  m.impl("takes_alibi_bias", &takes_bias_meta);
}

at::Tensor alibi_bias(const at::Tensor& slopes, std::int64_t length, at::ScalarType type) {
  CAPSTAN_ASSERT(slopes.dim() == 1 && slopes.scalar_type() == at::kFloat && slopes.is_contiguous());
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("capstan::alibi_bias", "")
                             .typed<at::Tensor(const at::Tensor&, std::int64_t, at::ScalarType)>();
  return op.call(slopes, length, type);
}

bool takes_alibi_bias(const at::Tensor& fused, std::int64_t heads) {
  constexpr std::int64_t whole = 8, most_columns = 128, most_positions = 1024;
  const auto dim = fused.size(2) / (3 * heads), length = fused.size(1);
  const bool is_narrow = fused.scalar_type() == at::kBFloat16 || fused.scalar_type() == at::kHalf;
  if (!is_narrow || dim % whole != 0 || dim > most_columns || length % whole != 0 || length > most_positions ||
      at::globalContext().deterministicAlgorithms())
    return false;
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("capstan::takes_alibi_bias", "").typed<bool(const at::Tensor&)>();
  return op.call(fused);
}

at::Tensor alibi_attention(const at::Tensor& fused, const at::Tensor& slopes, double scale) {
  CAPSTAN_ASSERT(fused.dim() == 3 && fused.is_contiguous() && fused.size(2) % (3 * slopes.size(0)) == 0);
  return AlibiAttentionFunction::apply(fused, slopes, scale);
}

}  // namespace capstan::ops
