#pragma once
// Strategies together, for whole runs of the families on in-process ranks.
#include <string>
#include <vector>

#include "support/families.h"

namespace capstan::testing {

/// Ranks, and the strategies that share a model among them.
struct Composition {
  std::string name;
  int world;
  std::string strategies;      ///< TOML
  bool needs_experts = false;  ///< for mixtures only
};

/// Each kind of sharding, tensor parallelism with and without split sequences, expert parallelism, both, some of them
/// again with recompute or host memory, and ranks that share tokens. One rank is the first.
inline const std::vector<Composition>& compositions() {
  const std::string tp2 = "[strategy.tensor_parallel]\nsize = 2\n", tp4 = "[strategy.tensor_parallel]\nsize = 4\n";
  const std::string ep2 = "[strategy.expert_parallel]\nsize = 2\n", ep4 = "[strategy.expert_parallel]\nsize = 4\n";
  const std::string cp2 = "[strategy.context_parallel]\nsize = 2\n";
  const std::string sp = "sequence_parallel = true\n", fsdp = "[strategy.fsdp]\n";
  static const std::vector<Composition> list{
      {"one rank", 1, ""},
      {"fsdp", 2, fsdp},
      {"TP 2 x fsdp", 4, tp2 + fsdp},
      {"TP 4 with SP x zero 2, recompute", 8, tp4 + sp + "[strategy.zero]\nstage = 2\n[strategy.recompute]\n"},
      {"zero 3, offloaded", 2,
       "[strategy.zero]\nstage = 3\nbucket_size = 2500\noffload_optimizer = \"cpu\"\noffload_param = \"cpu\"\n"},
      {"TP 2 with SP", 2, tp2 + sp},
      {"EP 2 x zero 1", 4, ep2 + "[strategy.zero]\nstage = 1\n", true},
      {"TP 2 with SP x EP 2", 4, tp2 + sp + ep2, true},
      {"TP 4 x EP 2, recompute", 8, tp4 + ep2 + "[strategy.recompute]\nregions = [\"attention\", \"mlp\"]\n", true},
      {"TP 2 x EP 2 x fsdp", 8, tp2 + ep2 + fsdp, true},
      {"EP 4", 4, ep4, true},
      {"CP 2 x fsdp", 4, cp2 + fsdp},
      {"CP 2 x TP 2 with SP", 4, cp2 + tp2 + sp},
  };
  return list;
}

/// Adapters on a mixture's attention, router and experts, or a dense model's matrices; B is drawn. Where q, k and v
/// are one module, its biases are trained too.
inline std::string adapters_of(const Family& family) {
  const std::string table = "[strategy.lora]\nrank = 3\nalpha = 5\ninit = \"random\"\ndropout = 0.1\n";
  if (family.plugin == "mixtral") return table + "targets = [\"linear_qkv\", \"linear_proj\", \"experts\", \"gate\"]\n";
  if (family.plugin == "llama") {
    return table +
           "targets = [\"q_proj\", \"v_proj\", \"linear_proj\", \"linear_fc1\", \"down_proj\"]\n"
           "modules_to_save = [\"norm\"]\n";
  }
  return table +
         "targets = [\"linear_qkv\", \"linear_proj\", \"linear_fc1\", \"linear_fc2\"]\nbias = \"all\"\n"
         "modules_to_save = [\"ln_f\"]\n";
}

inline const Family& mixture() { return families().back(); }
inline const Family& dense() { return families()[2]; }

}  // namespace capstan::testing
