// Whatever is joined, frozen, split or computed again: every record that is trained learns what it learns on one rank
// whose units move one by one.
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <map>

#include "support/compositions.h"
#include "support/pairwise.h"

namespace joined_units_test {

using namespace capstan;
using namespace capstan::testing;
using capstan::testing::train;  // capstan::train is a namespace, too

namespace {

// The first step has no state and no recorded order of units, the second makes both, and the third uses them.
constexpr std::int64_t steps = 3;
// float64 sums in another order: what the project promises.
constexpr double tolerance = 1e-10;
// A difference of 1e-16 that crosses the border between two numbers of 8 bits shows: one of these cases has such a one,
// 8e-7 of a gradient. A gradient that is lost is all of it.
constexpr double tolerance_of_eight_bits = 1e-5;

enum Factor : std::size_t { join_, trained_, base_, again_, split_, offload_, ranks_ };

// How units are joined: by number, by size, by a bucket's size; all of them in one, some with the frozen first one.
const std::vector<std::string> joins{
    "[strategy.fsdp]\n",
    "[strategy.fsdp]\nwrap = 2\n",
    "[strategy.fsdp]\nwrap = 5\n",
    "[strategy.fsdp]\nmin_num_params = 20000\n",
    "[strategy.fsdp]\nmode = \"no_shard\"\nwrap = 3\n",
    "[strategy.fsdp]\nmode = \"shard_grad_op\"\nwrap = 2\n",
    "[strategy.fsdp]\nmode = \"hybrid_shard\"\nshard_size = 1\nwrap = 3\n",
    "[strategy.zero]\nstage = 1\nbucket_size = 90000\n",
    "[strategy.zero]\nstage = 2\nbucket_size = 1000000000\n",
    "[strategy.zero]\nstage = 3\nbucket_size = 1000000000\n",
};
// What is trained: adapters; modules besides; adapters of one kind of layer; everything.
enum Trained : std::size_t { adapters, adapters_and_modules, adapters_of_mlp, everything };
// How frozen or multiplied weights are kept.
enum Base : std::size_t { plain, nf4, fp8 };
const std::vector<std::string> recomputes{"", "[strategy.recompute]\n", "[strategy.recompute]\nevery = 2\n",
                                          "[strategy.recompute]\nregions = [\"attention\", \"mlp\"]\n"};
enum Splits : std::size_t { whole, tp2, tp2_with_sequences, ep2 };
const std::vector<std::size_t> levels{joins.size(), 4, 3, recomputes.size(), 4, 2, 2};

// With nf4, a tensor rank's part of a matrix consists of whole groups of 16,384 values that share a magnitude.
Family model_of(const Choice& c) {
  const std::string sizes = c[base_] == nf4 ? "hidden_size = 256\nnum_heads = 4\nnum_kv_heads = 2\nff_dim = 128\n"
                                            : "hidden_size = 64\nnum_heads = 4\nnum_kv_heads = 4\nff_dim = 64\n";
  if (c[split_] == ep2) return {"mixtral", sizes + "num_experts = 4\n"};
  return {"llama", sizes + "attention_bias = true\ntie_word_embeddings = true\n"};
}

int world_of(const Choice& c) { return c[split_] == whole ? 1 + static_cast<int>(c[ranks_]) : 2 << c[ranks_]; }

bool allowed(const Choice& c) {
  const auto& join = joins[c[join_]];
  const bool is_zero = join.find("zero") != std::string::npos, is_hybrid = join.find("hybrid") != std::string::npos;
  if (c[trained_] == everything && c[base_] == nf4) return false;  // nf4 keeps what is frozen
  if (is_hybrid && c[split_] == ep2) return false;                 // a copy has all of its experts
  const bool shards_all = join.find("mode") == std::string::npos;
  return c[offload_] == 0 || is_zero || shards_all;
}

std::string trained_of(const Choice& c) {
  std::string table = "[strategy.lora]\nrank = 3\nalpha = 5\ninit = \"random\"\n";
  switch (c[trained_]) {
    case adapters:
      return table;
    case adapters_and_modules:
      return table + "targets = [\"all-linear\"]\nmodules_to_save = [\"norm\"]\n";
    case adapters_of_mlp:
      return table + (c[split_] == ep2 ? "targets = [\"experts\"]\n" : "targets = [\"linear_fc2\"]\n");
    default:
      return "";
  }
}

std::string base_of(const Choice& c) {
  if (c[base_] == nf4) return "[strategy.nf4]\n";
  return c[base_] == fp8 ? "[strategy.fp8]\n" : "";
}

std::string layout_of(const Choice& c) {
  auto tables = joins[c[join_]] + recomputes[c[again_]];
  const bool is_zero = tables.find("zero") != std::string::npos;
  if (c[offload_] == 1) {
    const std::string offload = is_zero ? "offload_optimizer = \"cpu\"\n" : "cpu_offload = true\n";
    tables.insert(tables.find('\n') + 1, offload);
  }
  if (c[split_] == tp2 || c[split_] == tp2_with_sequences) tables += "[strategy.tensor_parallel]\nsize = 2\n";
  if (c[split_] == tp2_with_sequences) tables += "sequence_parallel = true\n";
  if (c[split_] == ep2) tables += "[strategy.expert_parallel]\nsize = 2\n";
  return tables;
}

TrainResult run(const std::string& config, int world) {
  return train({.world = world, .config = config, .overrides = {same_micro_steps}, .steps = steps});
}

void check(const Choice& c) {
  const auto model = family_config(model_of(c)) + trained_of(c) + base_of(c);
  static std::map<std::string, TrainResult> references;
  if (references.count(model) == 0) references[model] = run(model, 1);
  const auto& reference = references.at(model);
  INFO(model << layout_of(c) << world_of(c) << " ranks");
  for (const auto& [name, gradient] : reference.gradients) {
    INFO(name);
    CHECK(gradient.abs().max().item<double>() > 0);
  }
  CHECK(differences(run(model + layout_of(c), world_of(c)), reference,
                    c[base_] == fp8 ? tolerance_of_eight_bits : tolerance) == "");
}

}  // namespace

TEST_CASE("float64: a pairwise cover of what joins, freezes, splits, keeps and computes units again",
          "[matrix][train]") {
  for (const auto& choice : pairwise(levels, allowed)) check(choice);
}

TEST_CASE("float64: all ways to join, freeze, split, keep and compute units again", "[.][full][matrix][train]") {
  each_choice(levels, [](const Choice& choice) {
    if (allowed(choice)) check(choice);
  });
}

}  // namespace joined_units_test
