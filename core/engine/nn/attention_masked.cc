#include <ATen/ATen.h>

#include "nn/attention_rows.h"

namespace capstan::nn {

AttentionRow masked_row() {
  const auto takes = [](const AttentionCall& call) -> Verdict {
    if (call.batch->documents) return WhyNot{"rows of one sample", false};
    if (call.cache) return WhyNot{"tokens without a cache", false};
    const bool is_masked = call.batch->part || call.window_within(call.q.size(2));
    if (!is_masked) return WhyNot{"rows longer than their window, or columns that ranks share", false};
    return {};
  };
  const auto run = [](const AttentionCall& call) -> AttentionResult {
    if (call.batch->part) {
      return attend_from_own(
          call, [&](const auto&... one) -> AttentionResult { return {masked_attention(one..., call.scale())}; });
    }
    const auto mask = causal_mask(call.q, call.k, call.window_within(call.q.size(2)));
    return {masked_attention(call.q, call.k, call.v, mask, call.scale())};
  };
  return {"masked SDPA", {AttentionFeature::window, AttentionFeature::value_width}, takes, run};
}

}  // namespace capstan::nn
