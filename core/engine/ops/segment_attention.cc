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

at::Tensor segment_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const SegmentAttention& how) {
  CAPSTAN_ASSERT(has_segment_attention(q, q.size(-1)) && q.dim() == 3 && how.bounds.scalar_type() == at::kInt);
  CAPSTAN_ASSERT(k.size(-1) == q.size(-1) && v.size(-1) <= q.size(-1) && q.size(1) % k.size(1) == 0);
  const auto missing = q.size(-1) - v.size(-1);
  const auto values = missing == 0 ? v : at::constant_pad_nd(v, {0, missing});
  std::optional<std::int64_t> before, after;
  if (how.window) {
    before = *how.window - 1;
    after = 0;
  }
  // With one query it would take another way, that of decoding.
  const auto longest = std::max<std::int64_t>(how.longest, 2);
  const auto results =
      at::_flash_attention_forward(q, k, values, how.bounds, how.bounds, longest, longest, /*dropout_p=*/0.0,
                                   /*is_causal=*/true, /*return_debug_mask=*/false, how.scale, before, after);
  const auto& out = std::get<0>(results);
  return missing == 0 ? out : out.narrow(-1, 0, v.size(-1));
}

}  // namespace capstan::ops
