#include <ATen/ATen.h>
#include <capstan/base/error.h>

#include <limits>

#include "nn/attention_rows.h"

namespace capstan::nn {
namespace {

// Where keys are seen, and what is added to the scores: [B or 1, heads, 1, keys], or nothing.
struct Seen {
  at::Tensor mask;
  at::Tensor biases;
};

// As at::logsumexp, which has no meta kernel.
at::Tensor log_sum_exp(const at::Tensor& scores) {
  const auto wide = scores.scalar_type() == at::kDouble ? scores : scores.to(at::kFloat);
  const auto largest = wide.detach().amax(-1, /*keepdim=*/true);
  return (wide - largest).exp().sum(-1).log() + largest.squeeze(-1);
}

AttentionResult by_products(const AttentionCall& call, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const Seen& seen) {
  const auto groups = q.size(1) / k.size(1);
  const auto keys = groups == 1 ? k : k.repeat_interleave(groups, 1);
  const auto values = groups == 1 ? v : v.repeat_interleave(groups, 1);
  auto scores = at::matmul(q * call.scale(), keys.transpose(-2, -1));
  if (const auto cap = call.spec->soft_cap) scores = (scores / *cap).tanh() * *cap;
  if (seen.biases.defined()) scores = scores + seen.biases;
  scores = scores.masked_fill(seen.mask.logical_not(), -std::numeric_limits<double>::infinity());
  AttentionResult result;
  if (call.needs_log_sum_exp) result.log_sum_exp = log_sum_exp(scores);
  auto probabilities = at::softmax(scores, -1).to(q.scalar_type());
  if (call.dropout) probabilities = call.dropout->on_attention(probabilities, *call.batch);
  result.out = at::matmul(probabilities, values);
  return result;
}

at::Tensor biases_of(const AttentionCall& call) {
  return call.slopes.defined() ? linear_biases(call).unsqueeze(2) : at::Tensor();
}

// Tokens that follow a cache, in the first positions of which are the keys that they see.
AttentionResult after_cache(const AttentionCall& call) {
  const auto& positions = call.batch->positions;
  const auto& [keys, values] = call.cache->put(call.layer, call.k, call.v, positions);
  // A GPU is not asked how far rows are filled, since that would wait for it.
  const auto filled = call.q.is_cpu() ? positions.max().item<std::int64_t>() + 1 : keys.size(2);
  const auto index = at::arange(filled, positions.options());
  const auto own = positions.unsqueeze(1).unsqueeze(-1);
  Seen seen{index <= own, {}};
  if (call.spec->window) seen.mask = seen.mask.bitwise_and(index > own - *call.spec->window);
  if (call.slopes.defined()) seen.biases = call.slopes.view({1, -1, 1, 1}) * index;
  return by_products(call, call.q, keys.narrow(2, 0, filled), values.narrow(2, 0, filled), seen);
}

AttentionResult of_rows(const AttentionCall& call) {
  const auto biases = biases_of(call);
  if (!call.batch->part) {
    const auto mask = causal_mask(call.q, call.k, call.window_within(call.q.size(2)));
    return by_products(call, call.q, call.k, call.v, {mask, biases});
  }
  return attend_from_own(call, [&](const auto& q, const auto& k, const auto& v, const auto& mask) {
    return by_products(call, q, k, v, {mask, biases.defined() ? biases.narrow(3, 0, k.size(2)) : biases});
  });
}

// Biases were counted from the last column, or after a cache from the first; the sum that is given counts them from
// each query.
void count_from_queries(const AttentionCall& call, AttentionResult& result) {
  if (!result.log_sum_exp.defined() || !call.slopes.defined()) return;
  const auto& batch = *call.batch;
  const auto columns = batch.part ? batch.part->whole->positions.size(1) : batch.positions.size(1);
  const auto places = call.cache ? batch.positions : batch.positions - (columns - 1);
  result.log_sum_exp = result.log_sum_exp - call.slopes.view({1, -1, 1}) * places.unsqueeze(1);
}

}  // namespace

AttentionRow plain_row() {
  const auto takes = [](const AttentionCall& call) -> Verdict {
    if (call.batch->documents) return WhyNot{"rows of one sample", false};
    return {};
  };
  const auto run = [](const AttentionCall& call) -> AttentionResult {
    auto result = call.cache ? after_cache(call) : of_rows(call);
    count_from_queries(call, result);
    return result;
  };
  std::vector<AttentionFeature> all;
  for (const auto& each : attention_feature_words) all.push_back(each.feature);
  return {"plain", all, takes, run, LogSumExp::with_gradient};
}

}  // namespace capstan::nn
