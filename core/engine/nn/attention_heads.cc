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

at::Tensor placed_query(const HeadsCall& call, const at::Tensor& heads) {
  const auto q = placed(call, call.query_norm, heads);
  if (!call.query_scaling) return q;
  const auto& of = *call.query_scaling;
  const auto turns =
      call.batch->positions.div(of.length, "floor").to(q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  const auto factor = (1 + of.beta * (1 + turns).log()).to(q.scalar_type());
  return q * factor.unsqueeze(-1).unsqueeze(-1);
}

// Of [B, S, heads, dim].
at::Tensor value_of(const HeadsCall& call, const at::Tensor& heads) {
  return call.value_norm ? at::rms_norm(heads, {heads.size(-1)}, {}, *call.value_norm) : heads;
}

ops::RotaryHeads heads_of(const HeadsCall& call, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  return {placed_query(call, q), placed(call, call.key_norm, k), value_of(call, v)};
}

ops::RotaryHeads one_after_the_other(const HeadsCall& call) {
  const auto rows = call.fused.size(0), columns = call.fused.size(1);
  const auto& own = call.own;
  if (call.order == HeadOrder::by_head) {
    const auto each = call.fused.view({rows, columns, -1, 3, own.dim}).unbind(3);
    return heads_of(call, each[0], each[1], each[2]);
  }
  if (call.keys_are_values) {
    const auto each = call.fused.view({rows, columns, -1, own.dim}).split_with_sizes({own.queries, own.keys}, 2);
    return heads_of(call, each[0], each[1], each[1]);
  }
  if (own.values() == own.dim) {
    const auto heads = call.fused.view({rows, columns, -1, own.dim});
    const auto each = heads.split_with_sizes({own.queries, own.keys, own.keys}, 2);
    return heads_of(call, each[0], each[1], each[2]);
  }
  const auto each =
      call.fused.split_with_sizes({own.queries * own.dim, own.keys * own.dim, own.keys * own.values()}, 2);
  const auto heads = [](const at::Tensor& features, std::int64_t dim) { return features.unflatten(2, {-1, dim}); };
  return heads_of(call, heads(each[0], own.dim), heads(each[1], own.dim), heads(each[2], own.values()));
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
    if (!call.rotary->is_plain()) return WhyNot{"a part of a head that turns, or pairs"};
    if (call.query_scaling || call.keys_are_values || call.value_norm)
      return WhyNot{"queries or values of another kind"};
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
