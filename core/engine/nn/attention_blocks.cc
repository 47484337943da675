#include <ATen/ATen.h>

#include "nn/attention_rows.h"

namespace capstan::nn {
namespace {

// Takes one window's worth of queries after the other, each with its own keys and those of the one before: the cost
// grows with the window, not with the row.
at::Tensor attention_in_blocks(const AttentionCall& call, std::int64_t window) {
  const auto rows = call.q.size(0), length = call.q.size(2), blocks = (length + window - 1) / window;
  const auto cut = [&](const at::Tensor& heads) {
    return at::constant_pad_nd(heads, {0, 0, 0, blocks * window - length}).unflatten(2, {blocks, window});
  };
  const auto first = [](const at::Tensor& cut_heads) { return cut_heads.select(2, 0); };
  const auto later = [&](const at::Tensor& cut_heads) { return cut_heads.narrow(2, 1, blocks - 1); };
  const auto with_before = [&](const at::Tensor& cut_heads) {
    return at::cat({cut_heads.narrow(2, 0, blocks - 1), later(cut_heads)}, 3);
  };
  const auto as_rows = [](const at::Tensor& cut_heads) { return cut_heads.transpose(1, 2).flatten(0, 1); };
  const auto queries = cut(call.q), keys = cut(call.k), values = cut(call.v);
  const auto begin = at::scaled_dot_product_attention(first(queries), first(keys), first(values), {}, 0.0,
                                                      /*is_causal=*/true, call.scale(), call.groups() > 1);
  // Query i of a block is at window + i of its keys, and sees those after i up to its own.
  const auto mask = at::ones({window, 2 * window}, call.q.options().dtype(at::kBool)).tril(window).triu(1);
  const auto rest = masked_attention(as_rows(later(queries)), as_rows(with_before(keys)), as_rows(with_before(values)),
                                     mask, call.scale());
  const auto all = at::cat({begin.unsqueeze(1), rest.unflatten(0, {rows, blocks - 1})}, 1);
  return all.transpose(1, 2).flatten(2, 3).narrow(2, 0, length);
}

}  // namespace

AttentionRow blocks_row() {
  const auto takes = [](const AttentionCall& call) -> Verdict {
    if (call.batch->documents || call.batch->part) return WhyNot{"whole rows of one sample", false};
    if (call.cache) return WhyNot{"tokens without a cache", false};
    const auto window = call.window_within(call.q.size(2));
    if (!window || call.q.size(2) < 2 * *window) return WhyNot{"rows of at least two windows", false};
    return {};
  };
  const auto run = [](const AttentionCall& call) -> AttentionResult {
    return {attention_in_blocks(call, *call.spec->window)};
  };
  return {"blocks of a window", {AttentionFeature::window, AttentionFeature::value_width}, takes, run};
}

}  // namespace capstan::nn
