#include "place.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/ops/cross_entropy.h>
#include <capstan/ops/label_log_probabilities.h>
#include <capstan/strategy_parts/collectives.h>

#include <algorithm>
#include <utility>

namespace tensor_parallel {

using namespace capstan;
using layout::Axis;

namespace {

constexpr const char* owner = "tensor_parallel";
constexpr std::int64_t positions = 1;  // dimension of [B, S, hidden]

bool cuts(const layout::Param& record) {
  const auto on_tp = [](const layout::Cut& cut) {
    return std::find(cut.axes.begin(), cut.axes.end(), Axis::tp) != cut.axes.end();
  };
  return std::any_of(record.compute.cuts.begin(), record.compute.cuts.end(), on_tp);
}

bool fits(std::int64_t queries, std::int64_t keys, std::int64_t ranks) {
  return queries % ranks == 0 && (keys % ranks == 0 || ranks % keys == 0);
}

void mark(layout::Param& record) {
  auto& axes = record.partial_axes;
  if (std::find(axes.begin(), axes.end(), Axis::tp) == axes.end()) axes.push_back(Axis::tp);
}

// What goes through the port is a part of what the model computes: without it ranks would continue with partial sums.
template <class Signature, class Function>
void fill(nn::Port<Signature>& port, Function function) {
  port.fill(owner, std::move(function));
  port.must_act();
}

// Tokens a row of the micro-batch that the unit computes, whose positions are split: what a rank's part does not tell.
std::int64_t columns_of(const nn::Unit& unit) { return unit.batch().tokens.size(1); }

}  // namespace

std::optional<SplitFault> heads_fault(std::int64_t queries, std::int64_t keys, std::int64_t ranks) {
  if (fits(queries, keys, ranks)) return {};
  std::vector<std::string> sizes;
  for (std::int64_t size = 1; size <= queries; ++size) {
    if (fits(queries, keys, size)) sizes.push_back(std::to_string(size));
  }
  const auto fix = cat("use one of ", join(sizes));
  if (queries % ranks != 0)
    return SplitFault{cat("the model's ", queries, " attention heads are not divisible by it"), fix};
  return SplitFault{cat("the model's ", keys,
                        " key and value heads can neither be divided by it nor each be held by as "
                        "many ranks"),
                    fix};
}

bool gives_all_some(std::int64_t n, std::int64_t ranks) { return (ranks - 1) * ((n + ranks - 1) / ranks) < n; }

UnitPlacement::UnitPlacement(nn::Unit& unit, const strategy::Placement& placement, Extent extent)
    : unit_(unit), extent_(std::move(extent)), group_(placement.group({Axis::tp})) {}

void UnitPlacement::run() {
  unit_.each<nn::AttentionCore>([&](nn::AttentionCore& attention) { check_heads_of(attention); });
  unit_.each<nn::Attention>([&](nn::Attention& attention) { split_heads_of(attention); });
  unit_.each<nn::Layer>([&](const nn::Layer& layer) {
    if (const auto* recurrence = dynamic_cast<const nn::Recurrence*>(&layer)) split_recurrence(*recurrence, layer);
  });
  unit_.each<nn::AttentionCore>([&](nn::AttentionCore& attention) {
    if (attention.shares_keys()) fill(attention.shared_keys, enter(cat(attention.name(), " keys")));
  });
  unit_.each<nn::Linear>([&](nn::Linear& linear) {
    if (linear.may_split() == nn::WeightSplit::columns) split_columns(linear);
    if (linear.may_split() == nn::WeightSplit::rows) split_rows(linear);
  });
  unit_.each<nn::RmsNorm>([&](nn::RmsNorm& norm) {
    if (norm.use() == nn::Use::split) split_norm(norm);
  });
  unit_.each<nn::Embedding>([&](nn::Embedding& embedding) { split_embedding(embedding); });
  unit_.each<nn::VocabularyHead>([&](nn::VocabularyHead& head) { split_head(head); });
  unit_.each<nn::ValueHead>([&](nn::ValueHead& head) { show_all_positions(head.before, head.name()); });
  unit_.each<nn::Experts>([&](nn::Experts& experts) { split_experts(experts); });
  split_attention();
  if (extent_.sequence) split_positions();
  check_uses();
  mark_partial();
}

void UnitPlacement::check_heads_of(const nn::AttentionCore& attention) const {
  const auto& heads = attention.heads();
  if (const auto fault = heads_fault(heads.queries, heads.keys, group_->size()))
    throw Error(cat("strategy.tensor_parallel.size is ", group_->size(), ", but ", fault->what), fault->fix);
}

// Query heads are shared evenly; where key heads are fewer than ranks, neighbours hold the same one.
void UnitPlacement::split_heads_of(nn::Attention& attention) {
  const auto& heads = attention.heads();
  const auto copies = heads.keys < group_->size() ? group_->size() / heads.keys : 1;
  key_copies_[&attention.qkv()] = copies;
  if (const auto* norm = attention.key_norm()) key_copies_[norm] = copies;
  if (attention.sinks()) cut(*attention.sinks(), 0);
}

// Its Linears are split as all are; of its own weights a rank has its heads' part.
void UnitPlacement::split_recurrence(const nn::Recurrence& recurrence, const nn::Layer& layer) {
  if (recurrence.heads() % group_->size() != 0) {
    throw Error(cat("strategy.tensor_parallel.size is ", group_->size(), ", but the ", recurrence.heads(), " heads of ",
                    layer.path(), ", each with a state of its own, are not divisible by it"),
                "use a size that divides them");
  }
  for (const auto& [weight, use] : layer.owned()) {
    if (use == nn::Use::split) cut(*weight, 0);
  }
}

std::string UnitPlacement::label(const char* what, const std::string& layer) const {
  return cat(what, " tp ", unit_.name(), " ", layer);
}

UnitPlacement::Transform UnitPlacement::enter(const std::string& layer) const {
  if (!extent_.sequence) return ops::CopyToGroup(group_, label("all-reduce", layer));
  const ops::GatherFromGroup gather(group_, positions, ops::GatheredGradient::part, label("all-gather", layer));
  return [gather, unit = &unit_](const at::Tensor& x) { return gather(x, columns_of(*unit)); };
}

UnitPlacement::Transform UnitPlacement::leave(const std::string& layer) const {
  if (!extent_.sequence) return ops::ReduceFromGroup(group_, label("all-reduce", layer));
  return ops::ScatterToGroup(group_, positions, ops::ScatteredValue::part, label("reduce-scatter", layer));
}

// This rank's part of a dimension of what all ranks hold; nothing differentiable.
UnitPlacement::Transform UnitPlacement::own_part(std::int64_t dim) const {
  return [dim, size = group_->size(), rank = group_->rank()](const at::Tensor& all) {
    const auto piece = ops::piece_of(all.size(dim), size, rank);
    return all.narrow(dim, piece.begin, piece.length);
  };
}

void UnitPlacement::cut(layout::Param& record, std::int64_t dim, std::int64_t copies) {
  declared_.insert(record.name);
  extent_.split->insert(record.name);
  if (cuts(record)) return;  // a tied weight's other user was placed before
  const auto n = record.shape.at(static_cast<std::size_t>(dim));
  if (!gives_all_some(n, group_->size() / copies)) {
    throw Error(cat("strategy.tensor_parallel.size is ", group_->size(), ", which leaves some ranks none of the ", n,
                    " in ", record.name, " ", layout::shape_text(record.shape)),
                "use a smaller size");
  }
  record.compute.cuts.push_back({dim, {Axis::tp}, copies});
  if (copies > 1) mark(record);
}

void UnitPlacement::cut(nn::Weight& weight, std::int64_t dim) {
  for (auto& record : weight.records()) cut(record, dim, 1);
}

// Each rank has some of the features; of q, k and v it has some of the heads.
void UnitPlacement::split_columns(nn::Linear& linear) {
  const auto found = key_copies_.find(&linear);
  const auto key_copies = found == key_copies_.end() ? 1 : found->second;
  for (const auto& weight : {linear.weight(), linear.bias()}) {
    if (!weight) continue;
    auto& records = weight->records();
    for (std::size_t i = 0; i < records.size(); ++i) cut(records[i], 0, i == 0 ? 1 : key_copies);
  }
  fill(linear.before, enter(linear.name()));
}

// A norm over the features of all heads; each rank has some of these. Where neighbours hold the same key head, each
// adds its share.
void UnitPlacement::split_norm(nn::RmsNorm& norm) {
  const auto found = key_copies_.find(&norm);
  const auto copies = found == key_copies_.end() ? 1 : found->second;
  for (auto& record : norm.weight()->records()) cut(record, 0, copies);
  const ops::ReduceFromGroup sum(group_, label("all-reduce", norm.name()));
  const ops::CopyToGroup spread(group_, label("all-reduce gradient", norm.name()));
  fill(norm.mean_square,
       [sum, spread, ranks = group_->size()](const at::Tensor& mean) { return spread(sum(mean / ranks)); });
}

// Each rank has some of what is summed over; the bias is added to the sum.
void UnitPlacement::split_rows(nn::Linear& linear) {
  auto& weight = *linear.weight();
  cut(weight, static_cast<std::int64_t>(weight.records().front().shape.size()) - 1);
  fill(linear.after, leave(linear.name()));
}

void UnitPlacement::split_embedding(nn::Embedding& embedding) {
  auto& weight = *embedding.weight();
  if (embedding.may_split() == nn::WeightSplit::vocabulary && extent_.vocabulary) {
    cut(weight, 0);
    const auto words = weight.records().front().shape.front();
    const auto begin = ops::piece_of(words, group_->size(), group_->rank()).begin;
    fill(embedding.lookup, [begin, sum = leave(embedding.name())](const auto& table, const auto& ids) {
      const auto own = ids - begin;
      const auto elsewhere = own.lt(0).logical_or(own.ge(table.size(0))).unsqueeze(-1);
      return sum(at::embedding(table, own.clamp(0, table.size(0) - 1)).masked_fill(elsewhere, 0));
    });
  } else if (embedding.may_split() == nn::WeightSplit::vocabulary && extent_.sequence) {
    // The head's gradient of a tied table is whole on each rank, so this one is too.
    const ops::ScatterToGroup scatter(group_, positions, ops::ScatteredValue::same,
                                      label("all-gather", embedding.name()));
    fill(embedding.lookup,
         [scatter](const at::Tensor& table, const at::Tensor& ids) { return scatter(at::embedding(table, ids)); });
  } else if (extent_.sequence) {
    fill(embedding.lookup, [own = own_part(positions)](const at::Tensor& table, const at::Tensor& ids) {
      return at::embedding(table, own(ids));
    });
  }
}

// For a head that every rank has whole, and which computes the same on all of them.
void UnitPlacement::show_all_positions(nn::CommPort& before, const std::string& layer) const {
  if (!extent_.sequence) return;
  const ops::GatherFromGroup gather(group_, positions, ops::GatheredGradient::same, label("all-gather", layer));
  fill(before, [gather, unit = &unit_](const at::Tensor& x) { return gather(x, columns_of(*unit)); });
}

void UnitPlacement::split_head(nn::VocabularyHead& head) {
  auto& weight = *head.weight();
  if (!extent_.vocabulary) {
    show_all_positions(head.before, head.name());
    return;
  }
  cut(weight, 0);
  if (head.bias()) cut(*head.bias(), 0);
  fill(head.before, enter(head.name()));
  const auto words = weight.records().front().shape.front();
  const auto begin = ops::piece_of(words, group_->size(), group_->rank()).begin;
  const ops::VocabularyPart part{group_, begin, label("all-reduce", "cross entropy")};
  // The same on all ranks: by the largest part.
  const auto rows = ops::cross_entropy_chunk_rows(ops::piece_of(words, group_->size(), 0).length);
  const auto cap = head.cap();
  head.loss.fill(owner, [part, rows, cap](const at::Tensor& x, const at::Tensor& matrix, const at::Tensor& labels) {
    return ops::split_linear_cross_entropy(x, matrix, labels, rows, part, cap);
  });
  head.log_probabilities.fill(owner, [part, rows, cap](const auto& x, const auto& matrix, const auto& labels) {
    return ops::split_label_log_probabilities(x, matrix, labels, rows, part, cap);
  });
  head.split.fill(owner, [part, rows, cap] { return nn::HeadSplit{rows, part, cap}; });
  const ops::GatherFromGroup gather(group_, 1, ops::GatheredGradient::same, label("all-gather", "logits"));
  head.after_logits.fill(owner, [gather, words](const at::Tensor& logits) { return gather(logits, words); });
}

// ff of every expert is split. Under sequence parallelism router and experts see all positions; what each rank adds to
// the router's gradient is then a part, like what it adds to the states'.
void UnitPlacement::split_experts(nn::Experts& experts) {
  constexpr std::int64_t ff = 2;  // dimension of ff in [E, 2, ff, hidden] and [E, hidden, ff]
  cut(*experts.gate_up(), ff);
  cut(*experts.down(), ff);
  if (experts.gate_up_bias()) cut(*experts.gate_up_bias(), ff);
  if (!extent_.sequence) {
    fill(experts.before, enter(experts.name()));
    fill(experts.before_weights, enter(cat(experts.name(), " routing")));
    fill(experts.after, leave(experts.name()));
  } else if (dynamic_cast<const nn::Mixture*>(experts.parent()) == nullptr) {
    throw Error(cat("layer ", experts.path(), " is not part of an nn::Mixture, which shows it all positions"),
                "let the model use nn::Mixture, or set strategy.tensor_parallel.sequence_parallel = false");
  }
}

// Heads that are not in any record: biases by head, and dropout on their probabilities.
void UnitPlacement::split_attention() {
  unit_.each<nn::Alibi>([&](nn::Alibi& alibi) { fill(alibi.own_heads, own_part(0)); });
  unit_.each<nn::Dropout>([&](nn::Dropout& dropout) {
    dropout.own_heads.fill(owner, [size = group_->size(), rank = group_->rank()](std::int64_t heads) {
      return nn::Dropout::HeadRange{rank * heads, size * heads};
    });
  });
}

void UnitPlacement::split_positions() {
  unit_.each<nn::Dropout>([&](nn::Dropout& dropout) {
    dropout.first_position.fill(owner, [unit = &unit_, size = group_->size(), rank = group_->rank()](std::int64_t) {
      return ops::piece_of(columns_of(*unit), size, rank).begin;
    });
  });
  unit_.each<nn::Mixture>([&](nn::Mixture& mixture) {
    fill(mixture.enter, enter(mixture.experts().name()));
    fill(mixture.leave, leave(mixture.experts().name()));
  });
  unit_.each<nn::Router>([&](nn::Router& router) { router.own_positions.fill(owner, own_part(positions)); });
  unit_.each<nn::LoadBalance>([&](nn::LoadBalance& balance) {
    balance.over_positions.fill(owner, ops::ReduceFromGroup(group_, label("all-reduce", "router load")));
  });
}

// What layers declare: a weight that acts on this rank's heads, or on its positions where the sequence is split, has a
// partial sum as its gradient. What a layer of another kind could split stays whole and acts on positions.
void UnitPlacement::mark_partial() {
  const auto others = nn::layers_of_other_kinds(unit_);
  unit_.each<nn::Layer>([&](nn::Layer& layer) {
    const bool is_other = std::find(others.begin(), others.end(), &layer) != others.end();
    for (const auto& [weight, use] : layer.owned()) {
      const bool on_positions = use == nn::Use::states || (is_other && use == nn::Use::split);
      if (use != nn::Use::heads && !(on_positions && extent_.sequence)) continue;
      for (auto& record : weight->records()) {
        if (!cuts(record)) mark(record);
      }
    }
  });
}

// A table that another unit has split, and weights of which no layer says what a rank does with them: where positions
// are split (where weights are, core looks itself).
void UnitPlacement::check_uses() const {
  for (const auto& weight : unit_.weights()) {
    const auto& name = weight->records().front().name;
    if (extent_.split->count(name) == 0 || declared_.count(name) > 0) continue;
    throw Error(cat("unit ", unit_.name(), " uses ", weight->name(),
                    ", which is split, in a layer that does not declare how it may be split"),
                "set strategy.tensor_parallel.vocab_parallel = false, or let the model use nn::VocabularyHead");
  }
  if (!extent_.sequence) return;
  for (const auto& weight : unit_.undeclared()) {
    throw Error(cat("unit ", unit_.name(), " uses ", weight->name(),
                    " on its part of the sequence, and no layer declares what a rank does with it"),
                "let a layer own it (docs/plugins.md, \"Layers\"), or set "
                "strategy.tensor_parallel.sequence_parallel = false");
  }
}

}  // namespace tensor_parallel
