#include "ops/decode_attention.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>
#include <capstan/ops/segment_attention.h>

#include <limits>

#include "ops/operator.h"

namespace capstan::ops {
namespace {

// Does the GPU's kernel take these tokens? It has the limits of flash attention's.
bool has_kernel(const at::Tensor& q) { return q.is_cuda() && q.size(2) == 1 && has_segment_attention(q, q.size(3)); }

// [B, 1, 1, S, keys]: what each token sees.
at::Tensor seen(const DecodeAttention& how, const at::Tensor& index) {
  const auto own = how.positions.unsqueeze(1).unsqueeze(1).unsqueeze(-1);
  return (index <= own).bitwise_and(index > own - how.window);
}

// The plain reference of the GPU's kernel. Heads of a group are rows of one product, so no key is copied.
at::Tensor by_products(const DecodeAttention& how) {
  const auto where = how.positions.unsqueeze(1).unsqueeze(-1).expand(how.k.sizes());
  how.keys.scatter_(2, where, how.k);
  how.values.scatter_(2, where, how.v);
  // A GPU is not asked, since that would wait for it.
  const auto filled = how.q.is_cpu() ? how.positions.max().item<std::int64_t>() + 1 : how.keys.size(2);
  const auto kv_heads = how.keys.size(1), group = how.q.size(1) / kv_heads;
  const auto index = at::arange(filled, how.positions.options());
  const auto q = (how.q * how.scale).unflatten(1, {kv_heads, group}).flatten(2, 3);
  auto scores = at::matmul(q, how.keys.narrow(2, 0, filled).transpose(-2, -1)).unflatten(2, {group, -1});
  if (how.slopes.defined()) scores = scores + how.slopes.view({kv_heads, group, 1, 1}) * index;
  scores = scores.masked_fill(seen(how, index).logical_not(), -std::numeric_limits<double>::infinity());
  const auto probabilities = at::softmax(scores, -1).to(how.q.scalar_type()).flatten(2, 3);
  const auto y = at::matmul(probabilities, how.values.narrow(2, 0, filled));
  return y.unflatten(2, {group, -1}).flatten(1, 2);
}

}  // namespace

// `token` is k and v, `cache` keys and values; `numbers` are the scale and the window.
TORCH_LIBRARY_FRAGMENT(capstan, m) {
  m.def(
      "decode_attention(Tensor q, Tensor[] token, Tensor(a!)[] cache, Tensor positions, Tensor? slopes, "
      "float[] numbers) -> Tensor");
}

at::Tensor decode_attention(const DecodeAttention& how) {
  const at::NoGradGuard no_grad;
  const auto heads = how.q.size(1), kv_heads = how.keys.size(1);
  CAPSTAN_ASSERT(how.k.sizes() == how.v.sizes() && how.k.size(1) == kv_heads && heads % kv_heads == 0);
  CAPSTAN_ASSERT(how.keys.sizes() == how.values.sizes() && how.keys.is_contiguous() && how.values.is_contiguous());
  CAPSTAN_ASSERT(how.keys.size(0) == how.q.size(0) && how.keys.size(3) == how.q.size(3) && how.window > 0);
  CAPSTAN_ASSERT(how.positions.scalar_type() == at::kLong && how.positions.size(1) == how.q.size(2));
  CAPSTAN_ASSERT(!how.slopes.defined() || (how.slopes.numel() == heads && how.slopes.is_contiguous()));
  CAPSTAN_ASSERT(!how.slopes.defined() || how.slopes.scalar_type() == sum_type(how.q));
  if (!has_kernel(how.q)) return by_products(how);
  static const auto op = find_operator<at::Tensor(const at::Tensor&, at::TensorList, at::TensorList, const at::Tensor&,
                                                  const Maybe&, at::ArrayRef<double>)>("capstan::decode_attention");
  const at::AutoDispatchBelowADInplaceOrView guard;  // autograd does not follow it
  return op.call(how.q, {how.k, how.v}, {how.keys, how.values}, how.positions, maybe(how.slopes),
                 {how.scale, static_cast<double>(how.window)});
}

}  // namespace capstan::ops
