#pragma once
// Ways to split a model over ranks, for pairwise covers.
#include <string>
#include <vector>

#include "support/families.h"
#include "support/pairwise.h"

namespace capstan::testing {

/// One layout of a run of one family.
struct TensorCase {
  std::size_t family = 0;
  int world = 1;
  std::string strategy;                ///< TOML of its strategy tables
  std::vector<std::string> overrides;  ///< accumulation, reduce
  std::string name;
};

enum TensorFactor : std::size_t { family_, data_, tp_, sequence_, vocabulary_, again_, ranks_, when_ };

inline const std::vector<std::string>& data_tables() {
  static const std::vector<std::string> tables{
      "[strategy.fsdp]\nmode = \"full_shard\"\n",
      "[strategy.fsdp]\nmode = \"shard_grad_op\"\nwrap = 2\n",
      "[strategy.fsdp]\nmode = \"hybrid_shard\"\nshard_size = 1\n",
      "[strategy.fsdp]\nmode = \"no_shard\"\n",
      "[strategy.fsdp]\nmode = \"full_shard\"\ncpu_offload = true\n",
      "[strategy.zero]\nstage = 1\n",
      "[strategy.zero]\nstage = 2\noffload_optimizer = \"cpu\"\n",
      "[strategy.zero]\nstage = 3\nbucket_size = 2500\n",
  };
  return tables;
}

/// families(), and one that eight ranks can split.
inline const std::vector<Family>& tensor_families() {
  static const std::vector<Family> list = [] {
    auto all = families();
    all.push_back(llama_of_eight_heads());
    return all;
  }();
  return list;
}

/// Levels: tensor_families(); data_tables(); tp 1, 2, 4, 8; sequence parallelism off, on; the vocabulary split, whole;
/// recompute none, whole units, regions; 2, 4, 8 ranks; gradients reduced each step, each micro-step.
inline std::vector<std::size_t> tensor_levels() {
  return {tensor_families().size(), data_tables().size(), 4, 2, 2, 3, 3, 2};
}

inline bool tensor_allowed(const Choice& c) {
  const auto tp = 1U << c[tp_], world = 2U << c[ranks_];
  if (tp > world || (tp == 8) != (c[family_] == families().size())) return false;
  return tp > 1 || (c[sequence_] == 0 && c[vocabulary_] == 0);
}

inline TensorCase tensor_case(const Choice& c) {
  TensorCase out;
  out.family = c[family_];
  out.world = 2 << c[ranks_];
  const int tp = 1 << c[tp_];
  out.strategy = data_tables()[c[data_]] + "[strategy.tensor_parallel]\nsize = " + std::to_string(tp) + "\n";
  if (c[sequence_] == 1) out.strategy += "sequence_parallel = true\n";
  if (c[vocabulary_] == 1) out.strategy += "vocab_parallel = false\n";
  if (c[again_] == 1) out.strategy += "[strategy.recompute]\n";
  if (c[again_] == 2) out.strategy += "[strategy.recompute]\nregions = [\"attention\", \"mlp\"]\n";
  out.overrides = {same_micro_steps, c[when_] == 0 ? "train.reduce=step" : "train.reduce=micro_step"};
  out.name = tensor_families()[out.family].plugin + " on " + std::to_string(out.world) + " ranks, " +
             out.overrides.back() + "\n" + out.strategy;
  return out;
}

}  // namespace capstan::testing
