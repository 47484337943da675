#include "nn/attention_rows.h"
#include "ops/decode_attention.h"

namespace capstan::nn {

AttentionRow decode_row() {
  const auto takes = [](const AttentionCall& call) -> Verdict {
    if (!call.cache) return WhyNot{"tokens that follow a cache", false};
    return {};
  };
  const auto run = [](const AttentionCall& call) -> AttentionResult {
    const auto& positions = call.batch->positions;
    const auto& [keys, values] =
        call.cache->put(call.layer, call.k.narrow(2, 0, 0), call.v.narrow(2, 0, 0), positions.narrow(1, 0, 0));
    const auto seen = call.spec->window.value_or(call.cache->capacity());
    return {ops::decode_attention({call.q, call.k, call.v, keys, values, positions, call.slopes, call.scale(), seen})};
  };
  return {"decode", {AttentionFeature::window, AttentionFeature::linear_biases}, takes, run};
}

}  // namespace capstan::nn
