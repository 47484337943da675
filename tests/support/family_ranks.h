#pragma once
// What a family's ranks_test.cc checks: ranks that share heads, positions, blocks or parameters learn what one rank
// does.
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <string>
#include <utility>
#include <vector>

namespace capstan::testing {

inline std::string tensor_parallel(int size, bool sequence) {
  return "[strategy.tensor_parallel]\nsize = " + std::to_string(size) + "\n" +
         (sequence ? "sequence_parallel = true\n" : "");
}
/// The first step has no state and no recorded order of units, the second makes both, and the third uses them.
inline constexpr std::int64_t family_steps = 3;
inline const std::string full_shard = "[strategy.fsdp]\n";
inline const std::string two_stages = "[strategy.pipeline_parallel]\nsize = 2\n";
inline const std::string two_parts = "[strategy.context_parallel]\nsize = 2\n";

inline const std::string half_the_experts = "[strategy.expert_parallel]\nsize = 2\n";

/// Ranks and their strategies.
using Split = std::pair<int, std::string>;

/// What all adapters are tried with, what all families are, and mixtures.
inline std::vector<Split> adapter_ways() {
  return {{2, tensor_parallel(2, true)}, {2, full_shard}, {2, two_stages}, {2, two_parts}};
}
inline std::vector<Split> family_ways() {
  auto ways = adapter_ways();
  ways.emplace_back(1, "[strategy.recompute]\n");
  return ways;
}
inline std::vector<Split> mixture_ways() {
  auto ways = family_ways();
  ways.emplace_back(2, half_the_experts);
  ways.emplace_back(4, tensor_parallel(2, true) + half_the_experts + full_shard);
  return ways;
}

/// `model`: its [model] table, and others.
inline void learns_the_same(const std::string& model, const std::vector<Split>& layouts,
                            const std::vector<std::string>& overrides = {}) {
  const auto alone = train({.config = model, .overrides = overrides, .steps = family_steps});
  for (const auto norm : alone.norms) CHECK(norm > 0);  // each step changes the weights
  for (const auto& [world, strategies] : layouts) {
    INFO(world << " ranks\n" << model << strategies);
    // Sums in float64 in another order, which AdamW amplifies: what the project promises.
    CHECK(differences(
              train({.world = world, .config = model + strategies, .overrides = overrides, .steps = family_steps}),
              alone, 1e-10) == "");
  }
}

/// Documents that share rows learn what each learns in a row of its own, on one rank and on two.
inline void packs_the_same(const std::string& model) {
  const auto apart = train({.config = model, .overrides = {"data.packing=false"}, .steps = family_steps});
  for (const auto& [world, strategies] :
       std::vector<std::pair<int, std::string>>{{1, ""}, {2, tensor_parallel(2, true)}, {2, two_parts}}) {
    INFO(world << " ranks\n" << model << strategies);
    CHECK(differences(train({.world = world,
                             .config = model + strategies,
                             .overrides = {"data.packing=true"},
                             .steps = family_steps}),
                      apart, 1e-10) == "");
  }
}

}  // namespace capstan::testing
