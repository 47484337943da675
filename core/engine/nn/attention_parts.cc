// What several rows of attention's table share.
#include <ATen/ATen.h>
#include <capstan/ops/bias_columns.h>

#include "nn/attention_rows.h"

namespace capstan::nn {

at::Tensor linear_biases(const AttentionCall& call) {
  const auto& positions = call.batch->part ? call.batch->part->whole->positions : call.batch->positions;
  return call.slopes.view({1, -1, 1}) * (positions - (positions.size(1) - 1)).unsqueeze(1);
}

BiasedHeads with_biases(const AttentionCall& call) {
  if (!call.slopes.defined()) return {call.q, call.k};
  const auto wide = ops::with_bias_columns(call.q, call.k, linear_biases(call), call.scale());
  return {wide.q, wide.k};
}

Verdict no_bias_columns(const AttentionCall& call) {
  if (!call.slopes.defined()) return {};
  if (call.q.is_cpu()) return WhyNot{"linear biases on a CPU"};
  if (call.groups() > 1) return WhyNot{"linear biases of grouped heads"};
  return {};
}

std::int64_t columns_with_biases(const AttentionCall& call) {
  return call.slopes.defined() ? ops::bias_columns(call.q.size(-1)) : call.q.size(-1);
}

at::Tensor causal_mask(const at::Tensor& q, const at::Tensor& k, std::optional<std::int64_t> window) {
  const auto past = at::ones({q.size(2), k.size(2)}, q.options().dtype(at::kBool)).tril();
  return window ? past.triu(1 - *window) : past;
}

// The kernels that take a mask want as many key heads as query heads.
at::Tensor masked_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                            double scale) {
  const auto groups = q.size(1) / k.size(1);
  const auto all = [&](const at::Tensor& heads) { return groups == 1 ? heads : heads.repeat_interleave(groups, 1); };
  return at::scaled_dot_product_attention(q, all(k), all(v), mask, 0.0, /*is_causal=*/false, scale);
}

namespace {

// [B or 1, 1, own columns, keys]: which of the first keys of whole rows are seen from some of this rank's columns.
at::Tensor visible_from(const at::Tensor& own_columns, Batch all, std::int64_t keys,
                        std::optional<std::int64_t> window) {
  const auto key = at::arange(keys, own_columns.options()), query = own_columns.view({1, 1, -1, 1});
  auto past = window ? (key <= query).bitwise_and(key > query - *window) : key <= query;
  if (!all.documents) return past;
  all.loss_rows = at::Tensor();  // all positions'; padding, which no token before it sees, is said to be the first's
  const auto sequences = all.label_sequences().view_as(all.tokens);
  const auto own = sequences.index_select(1, own_columns).unsqueeze(-1);
  return past.bitwise_and(own.eq(sequences.narrow(1, 0, keys).unsqueeze(1)).unsqueeze(1));
}

}  // namespace

AttentionResult attend_from_own(const AttentionCall& call, const AttendRange& each) {
  const auto& part = *call.batch->part;
  std::vector<at::Tensor> pieces, sums;
  std::int64_t first = 0;
  for (const auto& [begin, length] : part.own) {
    const auto keys = begin + length;
    const auto mask = visible_from(part.columns.narrow(0, first, length), *part.whole, keys, call.spec->window);
    auto piece = each(call.q.narrow(2, first, length), call.k.narrow(2, 0, keys), call.v.narrow(2, 0, keys), mask);
    pieces.push_back(std::move(piece.out));
    if (piece.log_sum_exp.defined()) sums.push_back(std::move(piece.log_sum_exp));
    first += length;
  }
  return {at::cat(pieces, 2), sums.empty() ? at::Tensor() : at::cat(sums, 2)};
}

}  // namespace capstan::nn
