#pragma once
#include <capstan/base/export.h>

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace strategy {

/// When the unit in front of the one that runs backward is gathered: before that one's backward is queued, behind
/// it, or only when its own turn comes.
enum class BackwardPrefetch { pre, post, none };

/// How the shard engine keeps each role of the parameters along the data axes, and when it moves them. Data that a
/// strategy fills in; the engine asks nothing else and knows no strategy's name. The default keeps everything whole
/// on every rank.
struct ShardPolicy {
  /// Each role is cut among the data ranks, or whole on each. A cut parameter needs a cut gradient, that a cut
  /// optimizer state.
  bool shard_param = false;
  bool shard_grad = false;
  bool shard_optim = false;

  /// Units that are gathered and reduced together: this many neighbours …
  std::int64_t units_per_bucket = 1;
  /// … or, when not 0, as many neighbours as have at most so many parameters (always at least one unit).
  std::int64_t bucket_elements = 0;

  /// Gathered parameters are freed after a unit's forward and gathered again for its backward.
  bool reshard_after_forward = true;
  /// After forward they stay cut over this many neighbouring ranks instead of all; 0: all.
  std::int64_t reshard_size = 0;
  BackwardPrefetch backward_prefetch = BackwardPrefetch::pre;
  bool forward_prefetch = true;
  /// A gather waits until the memory that compute is about to free is free. Otherwise gathers run as far ahead as the
  /// host does, with memory for that.
  bool limit_all_gathers = true;
  /// Collectives run on streams of their own, beside compute.
  bool overlap = true;

  /// Rank 0's values win when parameters are made; ranks that had others are named.
  bool sync_module_states = false;
  /// Instead of train.precision's compute dtype, and instead of float32 (float64 for it) sums.
  std::optional<c10::ScalarType> param_dtype;
  std::optional<c10::ScalarType> reduce_dtype;

  /// Masters and optimizer state live in host memory and are updated there; the parameters' shards too.
  bool offload_optim = false;
  bool offload_param = false;
  /// … of this share of the trained parameters. The rest, of the first buckets, stays on the device.
  double offload_ratio = 1;
  bool pin_memory = true;

  std::string owner;  ///< the strategy that set it; empty: nobody did
};

}  // namespace strategy
CAPSTAN_END_NAMESPACE
