#pragma once
// What one rank learns, against what other layouts of the same model learn.
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <string>
#include <utility>
#include <vector>

#include "support/families.h"

namespace capstan::testing {

/// The first step has no state and no recorded order of units, the second makes both, and the third uses them.
inline constexpr std::int64_t layout_steps = 3;
/// Two steps before a run is stopped, and two after: what the first of these leaves counts in the second.
inline constexpr std::int64_t resumed_steps = 4;

/// A model of a plugin at these sizes, and more tables after it.
inline std::string configuration(const std::string& plugin, const std::string& sizes, const std::string& tables) {
  return family_config({plugin, sizes}) + tables;
}

inline TrainResult run_of(const std::string& config, int world = 1) {
  return train({.world = world, .config = config, .overrides = {same_micro_steps}, .steps = layout_steps});
}

/// How many ranks, and the tables that split the model over them.
using Split = std::pair<int, std::string>;

/// `tolerance` holds for losses, norms, gradients and weights (testing::differences).
inline void check_splits(const std::string& config, const std::vector<Split>& splits, double tolerance) {
  const auto alone = run_of(config);
  CHECK(alone.losses.back() < alone.losses.front());
  for (const auto& [world, tables] : splits) {
    INFO(config << tables);
    CHECK(differences(run_of(config + tables, world), alone, tolerance) == "");
  }
}

/// What a dense decoder has to run on: a family's own test lists it for check_splits.
inline std::vector<Split> decoder_splits() {
  const auto of = [](const std::string& strategy) { return "[strategy." + strategy + "]\nsize = 2\n"; };
  const std::string tensor = of("tensor_parallel"), sequence = tensor + "sequence_parallel = true\n";
  const std::string fsdp = "[strategy.fsdp]\nmode = \"full_shard\"\n", recompute = "[strategy.recompute]\n";
  const std::string packing = "[data]\npacking = true\n";
  return {{2, tensor},
          {2, sequence},
          {2, fsdp + recompute},
          {2, of("pipeline_parallel")},
          {2, of("context_parallel")},
          {1, packing},
          {4, sequence + of("pipeline_parallel") + packing},
          {4, of("context_parallel") + fsdp + packing}};
}

/// Adapters of all products, and what they have to run on.
inline const std::string all_adapters = "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n";
inline std::vector<Split> adapter_splits() {
  const std::string tensor = "[strategy.tensor_parallel]\nsize = 2\n";
  return {{2, tensor},
          {4, tensor + "sequence_parallel = true\n[strategy.fsdp]\n"},
          {2, "[strategy.pipeline_parallel]\nsize = 2\n"},
          {2, "[strategy.context_parallel]\nsize = 2\n"}};
}

/// A run that is stopped after two steps and continues with the same bits, and on two ranks that share the parameters.
inline void check_resumed(const std::string& config, double tolerance) {
  const Setting setting{.world = 1, .config = config, .steps = resumed_steps};
  const auto whole = train(setting);
  CHECK(differences(train_resumed(setting, 2, setting), whole, 0) == "");
  auto sharded = setting;
  sharded.world = 2;
  sharded.config += "[strategy.fsdp]\n";
  CHECK(differences(train_resumed(setting, 2, sharded), whole, tolerance) == "");
}

/// What is said of a configuration that cannot run; empty if it runs.
inline std::string refusal_of(const std::string& config, int world = 1) {
  try {
    run_of(config, world);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace capstan::testing
