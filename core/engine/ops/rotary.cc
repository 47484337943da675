#include <ATen/core/LegacyTypeDispatch.h>
#include <capstan/base/error.h>
#include <capstan/ops/rotary.h>

#include <utility>

#include "ops/operator.h"

namespace capstan::ops {
namespace {

at::Tensor rotary_cpu(const at::Tensor& x, const at::Tensor& positions, at::ArrayRef<double> frequencies,
                      bool inverse) {
  const auto type = sum_type(x);
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
  static const auto op = find_operator<decltype(rotary_cpu)>("capstan::rotary");
  return op.call(x, positions, frequencies, inverse);
}

// Works in the memory of `heads`, a part of a fused projection.
void turn_cpu(const at::Tensor& heads, const at::Tensor& positions, at::ArrayRef<double> frequencies) {
  heads.copy_(rotary_cpu(heads, positions, frequencies, false));
}

at::Tensor of_all_heads(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  return at::empty({q.size(0), q.size(1), q.size(2) + k.size(2) + v.size(2), q.size(3)}, q.options());
}

at::Tensor turn_back_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& positions,
                         at::ArrayRef<double> frequencies) {
  at::Tensor out = of_all_heads(q, k, v);
  const auto queries = q.size(2), keys = k.size(2);
  out.narrow(2, 0, queries).copy_(rotary_cpu(q, positions, frequencies, true));
  out.narrow(2, queries, keys).copy_(rotary_cpu(k, positions, frequencies, true));
  out.narrow(2, queries + keys, v.size(2)).copy_(v);
  return out;
}

at::Tensor dense(const at::Tensor& heads) { return heads.stride(-1) == 1 ? heads : heads.contiguous(); }

class RotaryHeadsFunction : public Function<RotaryHeadsFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& fused,
                               const std::pair<std::int64_t, std::int64_t>& counts, const at::Tensor& positions,
                               const std::vector<double>& frequencies) {
    ctx->save_for_backward({positions});
    ctx->saved_data["frequencies"] = frequencies;
    static const auto op = find_operator<decltype(turn_cpu)>("capstan::turn_heads_");
    const auto [queries, keys] = counts;
    const at::AutoDispatchBelowADInplaceOrView guard;  // outputs of their own, no views that autograd follows
    op.call(fused.narrow(2, 0, queries + keys), positions, frequencies);
    return {fused.narrow(2, 0, queries), fused.narrow(2, queries, keys),
            fused.narrow(2, queries + keys, fused.size(2) - queries - keys)};
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    static const auto op = find_operator<decltype(turn_back_cpu)>("capstan::turn_heads_back");
    return {op.call(dense(gradients[0]), dense(gradients[1]), dense(gradients[2]), ctx->get_saved_variables()[0],
                    ctx->saved_data["frequencies"].toDoubleVector()),
            at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

class RotaryFunction : public Function<RotaryFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& positions,
                            const std::vector<double>& frequencies) {
    ctx->save_for_backward({positions});
    ctx->saved_data["frequencies"] = frequencies;
    return call(x, positions, frequencies, false);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto frequencies = ctx->saved_data["frequencies"].toDoubleVector();
    return {call(dense(gradients[0]), ctx->get_saved_variables()[0], frequencies, true), at::Tensor(), at::Tensor()};
  }
};

void check(const at::Tensor& x, const at::Tensor& positions, const std::vector<double>& frequencies) {
  CAPSTAN_ASSERT(x.dim() == 4 && x.size(-1) % 2 == 0 && x.size(-1) <= 512 && x.stride(-1) == 1);
  CAPSTAN_ASSERT(static_cast<std::int64_t>(frequencies.size()) * 2 == x.size(-1));
  CAPSTAN_ASSERT(positions.dim() == 2 && positions.scalar_type() == at::kLong && positions.device() == x.device());
  CAPSTAN_ASSERT(positions.size(0) == x.size(0) && positions.size(1) == x.size(1));
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan, m) {
  define(m, "rotary(Tensor x, Tensor positions, float[] frequencies, bool inverse) -> Tensor", &rotary_cpu,
         [](const at::Tensor& x, const at::Tensor&, at::ArrayRef<double>, bool) { return room_for(x); });
  define(m, "turn_heads_(Tensor(a!) heads, Tensor positions, float[] frequencies) -> ()", &turn_cpu);
  define(m, "turn_heads_back(Tensor q, Tensor k, Tensor v, Tensor positions, float[] frequencies) -> Tensor",
         &turn_back_cpu,
         [](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor&, at::ArrayRef<double>) {
           return of_all_heads(q, k, v);
         });
}

at::Tensor rotary(const at::Tensor& x, const at::Tensor& positions, const std::vector<double>& frequencies) {
  check(x, positions, frequencies);
  return RotaryFunction::apply(x, positions, frequencies);
}

RotaryHeads rotary_heads_(const at::Tensor& fused, std::int64_t queries, std::int64_t keys, const at::Tensor& positions,
                          const std::vector<double>& frequencies) {
  check(fused, positions, frequencies);
  CAPSTAN_ASSERT(queries >= 0 && keys >= 0 && queries + keys <= fused.size(2));
  const auto parts = RotaryHeadsFunction::apply(fused, std::pair(queries, keys), positions, frequencies);
  return {parts[0], parts[1], parts[2]};
}

}  // namespace capstan::ops
