// The table that makes q, k and v of their product.
#include <ATen/ATen.h>
#include <capstan/nn/attention_table.h>

namespace capstan::nn {
namespace {

// [B, S, heads, dim], normed and turned to its positions.
at::Tensor placed(const HeadsCall& call, const RmsNorm* norm, const at::Tensor& heads) {
  auto x = heads;
  if (norm) x = norm->use() == Use::heads ? norm->forward(x) : norm->forward(x.flatten(2)).view_as(x);
  return call.rotary ? call.rotary->forward(x, call.batch->positions) : x;
}

ops::RotaryHeads one_after_the_other(const HeadsCall& call) {
  const auto rows = call.fused.size(0), columns = call.fused.size(1);
  const auto& own = call.own;
  if (call.order == HeadOrder::by_head) {
    const auto each = call.fused.view({rows, columns, -1, 3, own.dim}).unbind(3);
    return {placed(call, call.query_norm, each[0]), placed(call, call.key_norm, each[1]), each[2]};
  }
  if (own.values() == own.dim) {
    const auto heads = call.fused.view({rows, columns, -1, own.dim});
    const auto each = heads.split_with_sizes({own.queries, own.keys, own.keys}, 2);
    return {placed(call, call.query_norm, each[0]), placed(call, call.key_norm, each[1]), each[2]};
  }
  const auto each =
      call.fused.split_with_sizes({own.queries * own.dim, own.keys * own.dim, own.keys * own.values()}, 2);
  const auto heads = [](const at::Tensor& features, std::int64_t dim) { return features.unflatten(2, {-1, dim}); };
  return {placed(call, call.query_norm, heads(each[0], own.dim)), placed(call, call.key_norm, heads(each[1], own.dim)),
          heads(each[2], own.values())};
}

HeadsRow plain_heads_row() {
  return {"norms, then rotation", [](const HeadsCall&) -> Verdict { return {}; }, one_after_the_other};
}

HeadsRow turned_heads_row() {
  const auto takes = [](const HeadsCall& call) -> Verdict {
    if (!call.rotary) return WhyNot{"rotary positions", false};
    if (call.query_norm || call.key_norm) return WhyNot{"norms"};
    if (call.order == HeadOrder::by_head) return WhyNot{"features by head"};
    if (call.own.values() != call.own.dim) return WhyNot{"values of another width"};
    return {};
  };
  const auto run = [](const HeadsCall& call) {
    const auto heads = call.fused.view({call.fused.size(0), call.fused.size(1), -1, call.own.dim});
    return call.rotary->forward_fused_(heads, call.own.queries, call.own.keys, call.batch->positions);
  };
  return {"rotation in place", takes, run};
}

}  // namespace

const HeadsRow* HeadsTable::row_for(const HeadsCall& call) const {
  static const std::vector<HeadsRow> own_rows{turned_heads_row(), plain_heads_row()};
  for (const auto* rows : {&added_, &own_rows}) {
    for (const auto& row : *rows) {
      if (!row.takes(call)) return &row;
    }
  }
  return nullptr;
}

}  // namespace capstan::nn
