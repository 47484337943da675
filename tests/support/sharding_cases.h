#pragma once
#include <string>
#include <vector>

#include "support/pairwise.h"

namespace capstan::testing {

/// One way to lay out the same training run.
struct ShardingCase {
  int world = 1;
  std::string strategy;                ///< TOML of its strategy tables
  std::vector<std::string> overrides;  ///< accumulation, reduce
  std::string name;
  bool hybrid = false;
};

/// The factors of the matrix, in this order.
enum Factor : std::size_t { layout_, offload_, recompute_, prefetch_, reduce_, world_, bucket_, factors_ };

inline const std::vector<std::string>& layouts() {
  static const std::vector<std::string> names{"full_shard", "shard_grad_op", "hybrid_shard", "no_shard", "0", "1", "2",
                                              "3"};
  return names;
}

/// Levels: 8 layouts; no offload, optimizer, both; no recompute, each unit, every second; prefetch as it is by default,
/// none, behind and unlimited; reduce step, micro_step; 1 to 4 ranks; a unit a bucket, several.
inline std::vector<std::size_t> sharding_levels() { return {8, 3, 3, 3, 2, 4, 2}; }

inline bool is_zero(const Choice& c) { return c[layout_] >= 4; }

/// What the plugins would refuse, or what would be the same as another choice, is not in the matrix.
inline bool sharding_allowed(const Choice& c) {
  const auto layout = c[layout_];
  if (layout == 3 || layout == 4) return c[offload_] == 0;
  if (is_zero(c)) return c[offload_] != 2 || layout == 7;
  return c[offload_] != 1;  // cpu_offload is both
}

inline ShardingCase sharding_case(const Choice& c) {
  ShardingCase out;
  out.world = static_cast<int>(c[world_]) + 1;
  out.hybrid = layouts()[c[layout_]] == "hybrid_shard";
  const auto& layout = layouts()[c[layout_]];
  std::string t;
  if (is_zero(c)) {
    t = "[strategy.zero]\nstage = " + layout + "\n";
    if (c[offload_] >= 1) t += "offload_optimizer = \"cpu\"\n";
    if (c[offload_] == 2) t += "offload_param = \"cpu\"\n";
    if (c[prefetch_] == 1) t += "overlap = false\n";
    if (c[bucket_] == 1) t += "bucket_size = 2500\n";
  } else {
    t = "[strategy.fsdp]\nmode = \"" + layout + "\"\n";
    if (c[offload_] == 2) t += "cpu_offload = true\n";
    if (c[prefetch_] == 1) t += "backward_prefetch = \"none\"\nforward_prefetch = false\n";
    if (c[prefetch_] == 2) t += "backward_prefetch = \"post\"\nlimit_all_gathers = false\n";
    if (c[bucket_] == 1) t += "wrap = 2\n";
    if (out.hybrid) t += "shard_size = " + std::string(out.world % 2 == 0 ? "2" : "1") + "\n";
    if (layout == "full_shard" && out.world == 4 && c[bucket_] == 1) t += "reshard_size = 2\n";
  }
  if (c[recompute_] > 0) t += "[strategy.recompute]\nevery = " + std::to_string(c[recompute_]) + "\n";
  out.strategy = t;
  out.overrides = {"train.accumulation=2", std::string("train.reduce=") + (c[reduce_] == 0 ? "step" : "micro_step")};
  out.name = std::to_string(out.world) + " ranks, reduce " + (c[reduce_] == 0 ? "step" : "micro_step") + "\n" + t;
  return out;
}

}  // namespace capstan::testing
