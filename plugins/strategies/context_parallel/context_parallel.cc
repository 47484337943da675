#include "context_parallel.h"

#include <capstan/base/counted.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>
#include <capstan/nn/recurrence.h>
#include <capstan/strategy_parts/claims.h>
#include <capstan/strategy_parts/collectives.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "attention.h"
#include "columns.h"
#include "ring.h"

namespace context_parallel {

using namespace capstan;
using layout::Axis;

std::vector<plugin::Saving> ContextParallelOptions::savings() {
  std::vector<plugin::Saving> list;
  for (const int size : {2, 4, 8}) {
    list.push_back(
        {plugin::Saving::By::sharding, cat("share each sample's tokens among ", size, " ranks"), {cat("size=", size)}});
  }
  return list;
}

void ContextParallelOptions::describe(config::OptionTable<ContextParallelOptions>& t) {
  t.add("size", &ContextParallelOptions::size)
      .min(1)
      .required()
      .doc(
          "ranks that share the tokens of each sample: each has 1 / size of the columns of every row, and of their "
          "activations");
  t.add("method", &ContextParallelOptions::method)
      .choices({"auto", "ulysses", "gather", "ring"})
      .doc(
          "how attention sees the other ranks' columns. ulysses: each rank gets all columns of some heads, which size "
          "divides; gather: each rank gets all keys and values; ring: keys and values go around the ranks, so that "
          "none has all of them, without dropout in attention; auto: ulysses where heads can be divided, else gather");
}

void ContextParallel::mesh(layout::MeshSpec& spec) {
  spec.set(Axis::cp, options_->size, "strategy.context_parallel", options_.where(&ContextParallelOptions::size));
}

void ContextParallel::claim(strategy::Claims& claims) const {
  claims.exclusive("axis cp");
  claims.exclusive(strategy::sequence_cut_point);
  if (options_->size > 1 && options_->method == "ring") claims.exclusive(strategy::attention_kernels);
}

namespace {

RankHeads heads_of_rank(std::int64_t queries, std::int64_t keys, int tp) {
  return {queries / tp, std::max<std::int64_t>(1, keys / tp)};
}

}  // namespace

std::optional<Method> ContextParallel::method_for(const RankHeads& heads) const {
  if (options_->method == "gather") return Method::gather;
  if (options_->method == "ring") return Method::ring;
  if (divides_heads(heads.queries, heads.keys, options_->size)) return Method::ulysses;
  return options_->method == "auto" ? std::optional(Method::gather) : std::nullopt;
}

Diagnostic ContextParallel::indivisible(const RankHeads& heads, int tp) const {
  const auto left = tp > 1 ? " that tensor parallelism leaves a rank" : "";
  return {options_.where(&ContextParallelOptions::size),
          cat("strategy.context_parallel.size is ", options_->size, ", which does not divide the ",
              counted(heads.queries, "attention head"), " and ", counted(heads.keys, "key head"), left),
          "choose a size that does, or method = \"gather\""};
}

void ContextParallel::refuse_short_rows(std::int64_t columns, Diagnostics& diagnostics) const {
  if (columns == 0 || columns >= options_->size) return;
  diagnostics.add(options_.where(&ContextParallelOptions::size),
                  cat("strategy.context_parallel.size is ", options_->size, ", and the model's rows have at most ",
                      counted(columns, "column"), ", so that some ranks would have none"),
                  cat("use a size of at most ", columns));
}

void ContextParallel::check(const strategy::Facts& facts, Diagnostics& diagnostics) const {
  const auto size = options_->size;
  const auto tp = facts.mesh.size(Axis::tp);
  const auto& model = facts.model;
  const auto heads = heads_of_rank(model.num_heads, model.num_kv_heads > 0 ? model.num_kv_heads : model.num_heads, tp);
  if (model.num_heads > 0 && !method_for(heads)) diagnostics.add(indivisible(heads, tp));
  if (size > 1 && options_->method == "ring" && facts.trains && model.attention_dropout) {
    diagnostics.add(options_.where(&ContextParallelOptions::method),
                    "strategy.context_parallel.method is ring, which has no dropout on attention's probabilities, but "
                    "the model has",
                    R"(set the model's attention_dropout = 0, or method = "ulysses" or "gather")");
  }
  refuse_short_rows(model.max_positions, diagnostics);
  const auto inner = facts.mesh.size({Axis::ep, Axis::tp});
  if (size > 1 && facts.rank == 0 && facts.ranks_per_node % (size * inner) != 0) {
    log::warning(cat(options_.where(&ContextParallelOptions::size), ": strategy.context_parallel.size is ", size,
                     inner > 1 ? cat(", times ep and tp ", inner) : "", ", but a node has ",
                     counted(facts.ranks_per_node, "rank"), ": attention then waits for the network between nodes"));
  }
}

void ContextParallel::refuse_recurrence(const nn::Layer& layer) const {
  if (dynamic_cast<const nn::Recurrence*>(&layer) == nullptr) return;
  throw Error(std::vector{
      Diagnostic{options_.where(&ContextParallelOptions::size),
                 cat("strategy.context_parallel.size is ", options_->size, ", but ", layer.path(),
                     " hands a state from token to token, so that ranks cannot share a row's columns"),
                 "remove strategy.context_parallel; tensor_parallel, with sequence_parallel, shares long rows too"}});
}

void ContextParallel::structure(std::vector<std::unique_ptr<nn::Unit>>& units) {
  notes_.clear();
  if (options_->size == 1) {
    if (options_.is_set(&ContextParallelOptions::method))
      notes_.push_back(cat("note: ", options_.name(&ContextParallelOptions::method), " has no effect with size = 1"));
    return;
  }
  notes_ = nn::notes_on_other_kinds(units, "context_parallel");
  for (const auto& unit : units) {
    unit->each<nn::Layer>([&](const nn::Layer& layer) { refuse_recurrence(layer); });
  }
}

namespace {

const char* what_attention_gets(Method method) {
  switch (method) {
    case Method::ulysses:
      return "all columns of some heads (ulysses)";
    case Method::gather:
      return "all keys and values (gather)";
    case Method::ring:
      break;
  }
  return "the keys and values of one rank after the other (ring)";
}

}  // namespace

void ContextParallel::note(Method method) {
  const auto line = cat("context_parallel: attention gets ", what_attention_gets(method));
  if (std::find(notes_.begin(), notes_.end(), line) == notes_.end()) notes_.push_back(line);
}

// The core's rows then get this rank's columns of queries, keys and values, which only the ring's takes.
void ContextParallel::add_ring(nn::AttentionCore& attention, nn::AttentionRow row) const {
  nn::Batch shared;
  shared.part = std::make_shared<const nn::SequencePart>();
  const auto like = at::empty({1}, at::TensorOptions(at::kMeta));
  if (const auto why = nn::AttentionTable::verdict(row, attention.planned(like, shared, 1))) {
    throw Error(std::vector{Diagnostic{options_.where(&ContextParallelOptions::method),
                                       cat("strategy.context_parallel.method is ring, which cannot compute ", why->what,
                                           ", but ", attention.path(), " has it"),
                                       R"(set method = "ulysses" or "gather")"}});
  }
  attention.rows().add(std::move(row));
  attention.around.fill("context_parallel", [](const auto& core, const auto& q, const auto& k, const auto& v,
                                               const nn::Batch& batch) { return core(q, k, v, batch); });
}

void ContextParallel::place(nn::Unit& unit, const strategy::Placement& placement) {
  if (options_->size == 1) return;
  const auto group = placement.group({Axis::cp});
  const auto tp = placement.mesh.size(Axis::tp);
  unit.each<nn::AttentionCore>([&](nn::AttentionCore& attention) {
    has_attention_ = true;
    const auto heads = heads_of_rank(attention.heads().queries, attention.heads().keys, tp);
    const auto method = method_for(heads);
    if (!method) throw Error(std::vector{indivisible(heads, tp)});
    note(*method);
    attention.around.must_act();
    if (*method == Method::ulysses) {
      attention.around.fill("context_parallel", Ulysses(group, unit.name()));
    } else if (*method == Method::ring) {
      add_ring(attention, Ring(group, unit.name()).row());
    } else {
      attention.around.fill("context_parallel", Gather(group, unit.name(), attention.dropout().probability()));
    }
  });
}

nn::SequenceCut ContextParallel::cut_sequence(const strategy::Placement& placement) {
  if (!has_attention_) {
    throw Error(
        "strategy.context_parallel does not know how the model's tokens see each other: none of its layers is "
        "an nn::Attention",
        "let the model use nn::Attention, or remove strategy.context_parallel");
  }
  const auto ranks = placement.mesh.size(Axis::cp);
  const auto rank = placement.mesh.coordinate(placement.rank, Axis::cp);
  const auto group = placement.group({Axis::cp});
  const ops::ReduceFromGroup sum(group, "all-reduce sums of sequences, cp");
  const ops::CopyToGroup spread(group, "all-reduce gradients of sequences, cp");
  nn::SequenceCut cut;
  cut.own = [ranks, rank](std::int64_t columns) { return own_columns(columns, ranks, rank); };
  cut.sum = [sum, spread](const at::Tensor& x) { return spread(sum(x)); };
  cut.represents_sample = rank == 0;
  return cut;
}

}  // namespace context_parallel

CAPSTAN_STRATEGY("context_parallel", "0.1.0", "shares the tokens of each sample among ranks",
                 context_parallel::ContextParallel, context_parallel::ContextParallelOptions)
