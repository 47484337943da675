#pragma once
// Attention with linear biases by core's rows.
#include <capstan/nn/attention.h>

#include <vector>

namespace capstan::testing {

/// What nn::attend gives with a layer's slopes. `qkv`: q, k and v [B, heads, S, dim].
inline at::Tensor alibi_attention(const nn::Alibi& alibi, const std::vector<at::Tensor>& qkv,
                                  const nn::Dropout& dropout, const nn::Batch& batch, nn::KVCache* cache = nullptr) {
  nn::AttentionSpec spec;
  spec.alibi = true;
  nn::AttentionCall call{&spec, qkv.at(0), qkv.at(1), qkv.at(2)};
  call.slopes = alibi.slopes(call.q);
  if (batch.training && dropout.probability() > 0) call.dropout = &dropout;
  call.batch = &batch;
  call.cache = cache;
  return nn::attend(call);
}

}  // namespace capstan::testing
