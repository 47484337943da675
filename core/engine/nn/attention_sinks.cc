#include <ATen/ATen.h>

#include "nn/attention_rows.h"

namespace capstan::nn {

// The sink is a further term of the softmax's sum: what the keys have of it is sum / (sum + exp(sink)).
at::Tensor with_sinks(const AttentionResult& without, const at::Tensor& sinks) {
  const auto& sums = without.log_sum_exp;
  const auto share = at::sigmoid(sums - sinks.to(sums.scalar_type()).view({1, -1, 1}));
  return without.out * share.to(without.out.scalar_type()).unsqueeze(-1);
}

}  // namespace capstan::nn
