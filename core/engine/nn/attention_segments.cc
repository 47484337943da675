#include <capstan/ops/segment_attention.h>

#include "nn/attention_rows.h"

namespace capstan::nn {

// Where samples stand in packed rows: what is between them attends to itself, and nothing reads that.
AttentionRow segments_row() {
  const auto takes = [](const AttentionCall& call) -> Verdict {
    if (!call.batch->documents) return WhyNot{"packed rows", false};
    if (!call.batch->documents->bounds.defined()) return WhyNot{"packed samples that are taken apart", false};
    if (call.slopes.defined() && call.groups() > 1) return WhyNot{"linear biases of grouped heads"};
    if (call.v.size(-1) > call.q.size(-1)) return WhyNot{"values that are wider than keys"};
    if (!ops::has_segment_attention(call.q, columns_with_biases(call))) return WhyNot{"heads or a dtype of this kind"};
    return {};
  };
  const auto run = [](const AttentionCall& call) -> AttentionResult {
    const auto& documents = *call.batch->documents;
    const auto heads = with_biases(call);
    const ops::SegmentAttention how{documents.bounds, documents.longest, call.scale(),
                                    call.window_within(documents.longest)};
    const auto tokens = [](const at::Tensor& x) { return x.transpose(1, 2).flatten(0, 1); };
    const auto y = ops::segment_attention(tokens(heads.q), tokens(heads.k), tokens(call.v), how);
    return {y.unflatten(0, {call.q.size(0), call.q.size(2)}).transpose(1, 2)};
  };
  using enum AttentionFeature;
  return {"segments", {window, linear_biases, value_width}, takes, run};
}

}  // namespace capstan::nn
