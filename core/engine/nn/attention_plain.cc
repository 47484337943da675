#include <ATen/ATen.h>
#include <capstan/base/error.h>

#include <limits>

#include "nn/attention_rows.h"
#include "ops/operator.h"

namespace capstan::nn {
namespace {

// Where keys are seen, and what is added to the scores: [B or 1, heads, 1, keys], or nothing.
struct Seen {
  at::Tensor mask;
  at::Tensor biases;
};

// As at::logsumexp, which has no meta kernel.
at::Tensor log_sum_exp(const at::Tensor& scores) {
  const auto wide = scores.to(ops::sum_type(scores));
  const auto largest = wide.amax(-1, /*keepdim=*/true);
  return (wide - largest).exp_().sum(-1).log() + largest.squeeze(-1);
}

// The probabilities of scores, in the dtype that values have, and after them the sums' logarithms if they are wanted.
// Backward keeps the probabilities only, which the product with the values keeps anyway.
class Softmax : public ops::Function<Softmax> {
 public:
  static ops::variable_list forward(ops::AutogradContext* ctx, const at::Tensor& scores, at::ScalarType type,
                                    bool with_sums) {
    ops::variable_list results{at::softmax(scores, -1).to(type)};
    ctx->save_for_backward({results[0]});
    if (with_sums) results.push_back(log_sum_exp(scores));
    return results;
  }

  static ops::variable_list backward(ops::AutogradContext* ctx, const ops::variable_list& gradients) {
    const auto probabilities = ctx->get_saved_variables()[0];
    auto gradient = at::_softmax_backward_data(gradients[0], probabilities, -1, probabilities.scalar_type());
    if (gradients.size() > 1) gradient.add_(probabilities * gradients[1].unsqueeze(-1));
    return {gradient, {}, {}};  // autograd casts it to the scores' dtype
  }
};

AttentionResult by_products(const AttentionCall& call, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const Seen& seen) {
  const auto groups = q.size(1) / k.size(1);
  const auto keys = groups == 1 ? k : k.repeat_interleave(groups, 1);
  const auto values = groups == 1 ? v : v.repeat_interleave(groups, 1);
  auto scores = at::matmul(q * call.scale(), keys.transpose(-2, -1));
  if (const auto cap = call.spec->soft_cap) scores = (scores / *cap).tanh() * *cap;
  if (seen.biases.defined()) scores = scores + seen.biases;
  scores = scores.masked_fill(seen.mask.logical_not(), -std::numeric_limits<double>::infinity());
  auto made = Softmax::apply(scores, q.scalar_type(), call.needs_log_sum_exp);
  if (call.dropout) made[0] = call.dropout->on_attention(made[0], *call.batch);
  return {at::matmul(made[0], values), call.needs_log_sum_exp ? made[1] : at::Tensor()};
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
