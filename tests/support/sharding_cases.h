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
  std::vector<std::string> scaling;    ///< overrides of the loss scale
  std::string name;
  bool hybrid = false;
};

/// The factors of the matrix, in this order.
enum Factor : std::size_t { layout_, offload_, recompute_, prefetch_, reduce_, world_, bucket_, scale_, factors_ };

inline const std::vector<std::string>& layouts() {
  static const std::vector<std::string> names{"full_shard", "shard_grad_op", "hybrid_shard", "no_shard", "0", "1", "2",
                                              "3"};
  return names;
}

/// Levels: 8 layouts; no offload, optimizer, both, optimizer of half of the parameters; no recompute, each unit, every
/// second, attention only; prefetch as it is by default, none, after and unlimited; reduce step, micro_step; 1 to 4
/// ranks; a unit a bucket, several; no loss scale, a fixed one, a dynamic one whose first steps overflow.
inline std::vector<std::size_t> sharding_levels() { return {8, 4, 4, 3, 2, 4, 2, 3}; }

/// The same for tests that have a loss scale of their own, or none.
inline std::vector<std::size_t> unscaled_levels() {
  auto levels = sharding_levels();
  levels[scale_] = 1;
  return levels;
}

/// A power of two changes no bit; gradients carry it.
constexpr double fixed_loss_scale = 1024;
/// 2^130: gradients are divided by it as float32, which ends at 2^128, so steps are skipped at any precision.
constexpr const char* overflowing_loss_scale = "1.3611294676837539e+39";

inline bool is_zero(const Choice& c) { return c[layout_] >= 4; }

/// What the plugins would refuse, or what would be the same as another choice, is not in the matrix.
inline bool sharding_allowed(const Choice& c) {
  const auto layout = c[layout_];
  if (layout == 3 || layout == 4) return c[offload_] == 0;
  if (is_zero(c)) return c[offload_] != 2 || layout == 7;
  return c[offload_] == 0 || c[offload_] == 2;  // cpu_offload is both
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
    if (c[offload_] == 3) t += "offload_ratio = 0.5\n";
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
  if (c[recompute_] == 1 || c[recompute_] == 2)
    t += "[strategy.recompute]\nevery = " + std::to_string(c[recompute_]) + "\n";
  if (c[recompute_] == 3) t += "[strategy.recompute]\nregions = [\"attention\"]\n";
  out.strategy = t;
  out.overrides = {"train.accumulation=2", std::string("train.reduce=") + (c[reduce_] == 0 ? "step" : "micro_step")};
  if (c[scale_] == 1) out.scaling = {"train.loss_scale=" + std::to_string(fixed_loss_scale)};
  if (c[scale_] == 2)
    out.scaling = {"train.loss_scale=dynamic", std::string("train.loss_scale_init=") + overflowing_loss_scale};
  out.name = std::to_string(out.world) + " ranks, reduce " + (c[reduce_] == 0 ? "step" : "micro_step");
  for (const auto& override : out.scaling) out.name += ", " + override;
  out.name += "\n" + t;
  return out;
}

}  // namespace capstan::testing
