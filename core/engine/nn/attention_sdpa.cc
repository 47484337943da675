#include <ATen/ATen.h>

#include "nn/attention_rows.h"

namespace capstan::nn {

AttentionRow sdpa_row() {
  const auto takes = [](const AttentionCall& call) -> Verdict {
    if (call.batch->documents || call.batch->part) return WhyNot{"whole rows of one sample", false};
    if (call.cache) return WhyNot{"tokens without a cache", false};
    if (call.window_within(call.q.size(2))) return WhyNot{"rows within their window", false};
    return no_bias_columns(call);
  };
  const auto run = [](const AttentionCall& call) -> AttentionResult {
    const auto heads = with_biases(call);
    const auto scale = call.spec->alibi ? call.scale() : call.spec->scale;
    // ATen's fused kernels take fewer key heads than query heads only where a head has at most 256 numbers.
    const bool repeats = call.groups() > 1 && heads.q.size(-1) > 256;
    const auto all = [&](const at::Tensor& x) { return repeats ? x.repeat_interleave(call.groups(), 1) : x; };
    return {at::scaled_dot_product_attention(heads.q, all(heads.k), all(call.v), {}, 0.0, /*is_causal=*/true, scale,
                                             call.groups() > 1 && !repeats)};
  };
  using enum AttentionFeature;
  return {"SDPA", {window, linear_biases, value_width}, takes, run};
}

}  // namespace capstan::nn
