#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/attention_table.h>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

/// Core's rows of attention's table, each in a file of its own.
AttentionRow segments_row();
AttentionRow sdpa_row();
AttentionRow blocks_row();
AttentionRow masked_row();
AttentionRow decode_row();
AttentionRow plain_row();

/// A call's linear biases as further columns of q and k (ops/bias_columns.h), where it has any; q and k as they are
/// where it has none.
struct BiasedHeads {
  at::Tensor q;
  at::Tensor k;
};
BiasedHeads with_biases(const AttentionCall& call);
/// Why biases cannot be columns.
Verdict no_bias_columns(const AttentionCall& call);
/// How many columns q and k then have.
std::int64_t columns_with_biases(const AttentionCall& call);

/// The linear biases [B, heads, 1, columns] of whole rows. The last key's is about 0, so that the largest numbers of
/// the softmax are small.
at::Tensor linear_biases(const AttentionCall& call);

/// [queries, keys] bool: which keys queries see that are the first ones of a row.
at::Tensor causal_mask(const at::Tensor& q, const at::Tensor& k, std::optional<std::int64_t> window);

/// Attends from this rank's columns, a range of queries to the keys up to its end: `each` gets q, k and v of such a
/// range and [B or 1, 1, queries, keys] bool, what is seen. A range may be empty, and is called for too, so that keys
/// and values have a gradient on each rank.
using AttendRange = std::function<AttentionResult(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                  const at::Tensor& mask)>;
AttentionResult attend_from_own(const AttentionCall& call, const AttendRange& each);

/// SDPA where `mask` says, with any number of key heads.
at::Tensor masked_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                            double scale);

/// What attention with sinks [heads] gives, of what it gives without them and the logarithms of the softmax's sums.
at::Tensor with_sinks(const AttentionResult& without, const at::Tensor& sinks);

}  // namespace nn
CAPSTAN_END_NAMESPACE
