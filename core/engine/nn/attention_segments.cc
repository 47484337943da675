#include <ATen/ATen.h>
#include <capstan/ops/segment_attention.h>

#include "nn/attention_rows.h"

namespace capstan::nn {

// Where samples stand in packed rows: what is between them attends to itself, and nothing reads that. With sinks, which
// no other fused kernel has, also whole rows: each is a segment.
AttentionRow segments_row() {
  const auto takes = [](const AttentionCall& call) -> Verdict {
    const auto& batch = *call.batch;
    const bool is_whole = call.sinks.defined() && !call.q.is_cpu() && !batch.part && !call.cache;
    if (!batch.documents && !is_whole) return WhyNot{"packed rows, or sinks on a GPU", false};
    if (batch.documents && !batch.documents->bounds.defined())
      return WhyNot{"packed samples that are taken apart", false};
    if (call.slopes.defined() && call.groups() > 1) return WhyNot{"linear biases of grouped heads"};
    if (call.slopes.defined() && call.sinks.defined()) return WhyNot{"linear biases beside sinks"};
    if (call.v.size(-1) > call.q.size(-1)) return WhyNot{"values that are wider than keys"};
    if (!ops::has_segment_attention(call.q, columns_with_biases(call))) return WhyNot{"heads or a dtype of this kind"};
    return {};
  };
  const auto run = [](const AttentionCall& call) -> AttentionResult {
    const auto& documents = call.batch->documents;
    const auto rows = call.q.size(0), columns = call.q.size(2);
    const auto heads = with_biases(call);
    ops::SegmentAttention how{{}, columns, call.scale(), {}, call.sinks};
    if (documents) {
      how.bounds = documents->bounds;
      how.longest = documents->longest;
    } else {
      how.bounds = at::arange(0, (rows + 1) * columns, columns, call.q.options().dtype(at::kInt));
    }
    how.window = call.window_within(how.longest);
    const auto tokens = [](const at::Tensor& x) { return x.transpose(1, 2).flatten(0, 1); };
    const auto y = ops::segment_attention(tokens(heads.q), tokens(heads.k), tokens(call.v), how);
    return {y.unflatten(0, {rows, columns}).transpose(1, 2)};
  };
  using enum AttentionFeature;
  return {"segments", {window, linear_biases, value_width}, takes, run, LogSumExp::none, true, /*has_sinks=*/true};
}

}  // namespace capstan::nn
