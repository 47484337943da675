#include "place.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/ops/collectives.h>
#include <capstan/ops/cross_entropy.h>
#include <capstan/ops/overlapped_linear.h>

#include <algorithm>
#include <utility>

#include "splits.h"

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

void mark(layout::Param& record) {
  auto& axes = record.partial_axes;
  if (std::find(axes.begin(), axes.end(), Axis::tp) == axes.end()) axes.push_back(Axis::tp);
}

}  // namespace

UnitPlacement::UnitPlacement(nn::Unit& unit, const strategy::Placement& placement, Extent extent)
    : unit_(unit), extent_(std::move(extent)), group_(placement.group({Axis::tp})) {}

void UnitPlacement::run() {
  for (auto* attention : unit_.attentions()) {
    const auto& heads = attention->heads();
    if (const auto fault = heads_fault(heads.queries, heads.keys, group_->size()))
      throw Error(cat("strategy.tensor_parallel.size is ", group_->size(), ", but ", fault->what), fault->fix);
    key_copies_[&attention->qkv()] = split_heads(heads.keys, group_->size()).key_copies;
  }
  for (auto* linear : unit_.linears()) {
    if (linear->may_split() == nn::Split::columns) split_columns(*linear);
    if (linear->may_split() == nn::Split::rows) split_rows(*linear);
  }
  for (auto* embedding : unit_.embeddings()) split_embedding(*embedding);
  for (auto* head : unit_.heads()) split_head(*head);
  for (auto* experts : unit_.experts()) split_experts(*experts);
  split_attention();
  if (extent_.sequence) split_positions();
  check_uses();
  if (extent_.sequence) mark_partial();
}

std::string UnitPlacement::label(const char* what, const std::string& layer) const {
  return cat(what, " tp ", unit_.name(), " ", layer);
}

UnitPlacement::Transform UnitPlacement::enter(const std::string& layer) const {
  if (!extent_.sequence) return ops::CopyToGroup(group_, label("all-reduce", layer));
  const ops::GatherFromGroup gather(group_, positions, ops::GatheredGradient::part, label("all-gather", layer));
  return [gather, length = extent_.length](const at::Tensor& x) { return gather(x, *length); };
}

UnitPlacement::Transform UnitPlacement::leave(const std::string& layer) const {
  if (!extent_.sequence) return ops::ReduceFromGroup(group_, label("all-reduce", layer));
  return ops::ScatterToGroup(group_, positions, ops::ScatteredValue::part, label("reduce-scatter", layer));
}

UnitPlacement::Product UnitPlacement::overlapped(const std::string& layer) const {
  if (!extent_.sequence) return ops::LinearOfCopy(group_, label("all-reduce", layer));
  const ops::LinearOfPieces product(group_, positions, label("all-gather", layer));
  return [product, length = extent_.length](const at::Tensor& x, const at::Tensor& matrix,
                                            const std::optional<at::Tensor>& bias) {
    return product(x, *length, matrix, bias);
  };
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

// Each rank has some of the features, of q, k and v some of the heads.
void UnitPlacement::split_columns(nn::Linear& linear) {
  const auto found = key_copies_.find(&linear);
  const auto key_copies = found == key_copies_.end() ? 1 : found->second;
  for (const auto& weight : {linear.weight(), linear.bias()}) {
    if (!weight) continue;
    auto& records = weight->records();
    for (std::size_t i = 0; i < records.size(); ++i) cut(records[i], 0, i == 0 ? 1 : key_copies);
  }
  linear.before.fill(owner, enter(linear.name()));
  if (extent_.overlap) linear.product.fill(owner, overlapped(linear.name()));
}

// Each rank has some of what is summed over; the bias is added to the sum.
void UnitPlacement::split_rows(nn::Linear& linear) {
  auto& weight = *linear.weight();
  cut(weight, static_cast<std::int64_t>(weight.records().front().shape.size()) - 1);
  linear.after.fill(owner, leave(linear.name()));
}

void UnitPlacement::split_embedding(nn::Embedding& embedding) {
  auto& weight = *embedding.weight();
  const auto length = extent_.length;
  if (embedding.may_split() == nn::Split::vocabulary && extent_.vocabulary) {
    cut(weight, 0);
    const auto words = weight.records().front().shape.front();
    const auto begin = ops::piece_of(words, group_->size(), group_->rank()).begin;
    embedding.lookup.fill(owner, [begin, length, sum = leave(embedding.name())](const auto& table, const auto& ids) {
      *length = ids.size(1);
      const auto own = ids - begin;
      const auto elsewhere = own.lt(0).logical_or(own.ge(table.size(0))).unsqueeze(-1);
      return sum(at::embedding(table, own.clamp(0, table.size(0) - 1)).masked_fill(elsewhere, 0));
    });
  } else if (embedding.may_split() == nn::Split::vocabulary && extent_.sequence) {
    // The head's gradient of a tied table is whole on each rank, so this one is too.
    whole_.insert(&weight);
    const ops::ScatterToGroup scatter(group_, positions, ops::ScatteredValue::same,
                                      label("all-gather", embedding.name()));
    embedding.lookup.fill(owner, [length, scatter](const at::Tensor& table, const at::Tensor& ids) {
      *length = ids.size(1);
      return scatter(at::embedding(table, ids));
    });
  } else if (extent_.sequence) {
    embedding.lookup.fill(owner, [length, own = own_part(positions)](const at::Tensor& table, const at::Tensor& ids) {
      *length = ids.size(1);
      return at::embedding(table, own(ids));
    });
  }
}

void UnitPlacement::split_head(nn::VocabularyHead& head) {
  auto& weight = *head.weight();
  if (!extent_.vocabulary) {
    whole_.insert(&weight);
    if (!extent_.sequence) return;
    const ops::GatherFromGroup gather(group_, positions, ops::GatheredGradient::same, label("all-gather", head.name()));
    head.before.fill(owner, [gather, length = extent_.length](const at::Tensor& x) { return gather(x, *length); });
    return;
  }
  cut(weight, 0);
  head.before.fill(owner, enter(head.name()));
  const auto words = weight.records().front().shape.front();
  const auto begin = ops::piece_of(words, group_->size(), group_->rank()).begin;
  const ops::VocabularyPart part{group_, begin, label("all-reduce", "cross entropy")};
  // The same on all ranks: by the largest part.
  const auto rows = ops::cross_entropy_chunk_rows(ops::piece_of(words, group_->size(), 0).length);
  head.loss.fill(owner, [part, rows](const at::Tensor& x, const at::Tensor& matrix, const at::Tensor& labels) {
    return ops::split_linear_cross_entropy(x, matrix, labels, rows, part);
  });
  const ops::GatherFromGroup gather(group_, 1, ops::GatheredGradient::same, label("all-gather", "logits"));
  head.after_logits.fill(owner, [gather, words](const at::Tensor& logits) { return gather(logits, words); });
}

// ff of every expert is split. Under sequence parallelism router and experts see all positions; what each rank adds to
// the router's gradient is then a part, like what it adds to the states'.
void UnitPlacement::split_experts(nn::Experts& experts) {
  constexpr std::int64_t ff = 2;  // of [E, 2, ff, hidden] and [E, hidden, ff]
  cut(*experts.gate_up(), ff);
  cut(*experts.down(), ff);
  if (extent_.sequence) {
    experts.enter.fill(owner, enter(experts.name()));
    experts.leave.fill(owner, leave(experts.name()));
  } else {
    experts.before.fill(owner, enter(experts.name()));
    experts.before_weights.fill(owner, enter(cat(experts.name(), " routing")));
    experts.after.fill(owner, leave(experts.name()));
  }
}

// Heads that are not in any record: biases by head, and dropout on their probabilities.
void UnitPlacement::split_attention() {
  for (auto* alibi : unit_.alibis()) alibi->own_heads.fill(owner, own_part(0));
  for (auto* dropout : unit_.dropouts()) {
    dropout->own_heads.fill(owner, [size = group_->size(), rank = group_->rank()](std::int64_t heads) {
      return nn::Dropout::HeadRange{rank * heads, size * heads};
    });
  }
}

void UnitPlacement::split_positions() {
  for (auto* dropout : unit_.dropouts()) {
    dropout->first_position.fill(owner, [length = extent_.length, size = group_->size(), rank = group_->rank()](
                                            std::int64_t) { return ops::piece_of(*length, size, rank).begin; });
  }
  for (auto* router : unit_.routers()) router->own_positions.fill(owner, own_part(positions));
  for (auto* balance : unit_.balances()) {
    balance->over_positions.fill(owner, ops::ReduceFromGroup(group_, label("all-reduce", "router load")));
  }
}

bool UnitPlacement::is_cut(const nn::Weight& weight) const {
  return std::any_of(weight.records().begin(), weight.records().end(), cuts);
}

// What no layer splits sees this rank's positions alone.
void UnitPlacement::mark_partial() {
  for (const auto& weight : unit_.weights()) {
    if (is_cut(*weight) || whole_.count(weight.get()) > 0) continue;
    for (auto& record : weight->records()) mark(record);
  }
}

// A tied table that a unit uses without a layer which declares how it may be split.
void UnitPlacement::check_uses() const {
  for (const auto& weight : unit_.weights()) {
    const auto& name = weight->records().front().name;
    if (extent_.split->count(name) == 0 || declared_.count(name) > 0) continue;
    throw Error(cat("unit ", unit_.name(), " uses ", weight->name(),
                    ", which is split, in a layer that does not declare how it may be split"),
                "set strategy.tensor_parallel.vocab_parallel = false, or let the model use nn::VocabularyHead");
  }
}

}  // namespace tensor_parallel
