#include "tensor_parallel.h"

#include <capstan/base/counted.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>

#include "place.h"

namespace tensor_parallel {

using namespace capstan;
using layout::Axis;

// Ranks that share a node, mostly.
std::vector<plugin::Saving> TensorParallelOptions::savings() {
  std::vector<plugin::Saving> list;
  for (const int size : {2, 4, 8}) {
    list.push_back(
        {plugin::Saving::By::sharding, cat("split every matrix over ", size, " ranks"), {cat("size=", size)}});
  }
  return list;
}

void TensorParallelOptions::describe(config::OptionTable<TensorParallelOptions>& t) {
  t.add("size", &TensorParallelOptions::size)
      .min(1)
      .required()
      .doc(
          "ranks among which every matrix, its heads and the vocabulary are split; neighbours, so that they share a "
          "node. Divides the number of attention heads");
  t.add("sequence_parallel", &TensorParallelOptions::sequence_parallel)
      .doc(
          "between the split layers each rank keeps and computes its part of the sequence: norms, dropout and the "
          "residual stream take 1 / size of the memory");
  t.add("vocab_parallel", &TensorParallelOptions::vocab_parallel)
      .doc(
          "split the embedding and the head by words; the loss is computed without gathering logits. false: each rank "
          "holds and computes all of both");
  t.gone("async", false, "leave it out: it took at most a hundredth off a step (tools/bench/records/speed-log.md)");
}

void TensorParallel::mesh(layout::MeshSpec& spec) {
  spec.set(Axis::tp, options_->size, "strategy.tensor_parallel", options_.where(&TensorParallelOptions::size));
}

void TensorParallel::claim(strategy::Claims& claims) const { claims.exclusive("axis tp"); }

void TensorParallel::refuse_without_effect(Diagnostics& diagnostics) const {
  const auto option = &TensorParallelOptions::sequence_parallel;
  if (!options_->sequence_parallel) return;
  diagnostics.add(options_.where(option), cat(options_.name(option), " has no effect with size = 1"),
                  "leave it out, or set size to 2 or more");
}

void TensorParallel::check(const strategy::Facts& facts, Diagnostics& diagnostics) const {
  const auto size = options_->size;
  const auto name = cat(options_.name(&TensorParallelOptions::size), " is ", size);
  const auto where = options_.where(&TensorParallelOptions::size);
  if (size == 1) refuse_without_effect(diagnostics);
  const auto queries = facts.model.num_heads;
  const auto keys = facts.model.num_kv_heads > 0 ? facts.model.num_kv_heads : queries;
  if (const auto fault = queries > 0 ? heads_fault(queries, keys, size) : std::nullopt)
    diagnostics.add(where, cat(name, ", but ", fault->what), fault->fix);
  const auto words = facts.model.vocab_size;
  if (options_->vocab_parallel && words > 0 && !gives_all_some(words, size)) {
    diagnostics.add(where, cat(name, ", which leaves some ranks none of the vocabulary's ", words, " words"),
                    "use a smaller size, or set vocab_parallel = false");
  }
  if (facts.rank == 0 && facts.ranks_per_node % size != 0) {
    log::warning(cat(where, ": ", name, ", but a node has ", counted(facts.ranks_per_node, "rank"),
                     ": layers then wait for the network between nodes, several times each"));
  }
}

void TensorParallel::structure(std::vector<std::unique_ptr<nn::Unit>>& units) {
  notes_.clear();
  if (options_->size > 1) notes_ = nn::notes_on_other_kinds(units, "tensor_parallel");
}

void TensorParallel::place(nn::Unit& unit, const strategy::Placement& placement) {
  if (options_->size == 1) return;
  UnitPlacement(unit, placement, {options_->sequence_parallel, options_->vocab_parallel, split_}).run();
}

}  // namespace tensor_parallel

CAPSTAN_STRATEGY("tensor_parallel", "0.1.0",
                 "splits matrices, heads and vocabulary over ranks that see the same samples",
                 tensor_parallel::TensorParallel, tensor_parallel::TensorParallelOptions)
