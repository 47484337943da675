#pragma once
#include <capstan/base/export.h>

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace strategy {

/// When backward gathers the next unit: before the current unit's backward is queued, after it, or only when the next
/// unit's backward begins.
enum class BackwardPrefetch { pre, post, none };

/// How many neighbouring units are gathered and reduced together: always at least one.
struct BucketSize {
  enum class By {
    units,    ///< this many units
    at_most,  ///< as many units as have at most this many parameters together
    at_least  ///< as few units as have at least this many; the last ones may have fewer
  };
  By by = By::units;
  std::int64_t number = 1;  ///< units, or parameters of theirs
};

/// How the shard engine keeps each role of the parameters along the data axes, and when it moves them. Data that a
/// strategy fills in; the engine reads nothing else and knows no strategy's name. The default replicates everything on
/// every rank.
struct ShardPolicy {
  /// Each role is sharded over the data ranks, or replicated. A sharded parameter needs a sharded gradient, and a
  /// sharded gradient a sharded optimizer state.
  bool shard_param = false;
  bool shard_grad = false;
  bool shard_optim = false;

  BucketSize bucket_size;

  /// Gathered parameters are freed after a unit's forward and gathered again for its backward.
  bool reshard_after_forward = true;
  /// After forward they stay sharded over this many neighbouring ranks instead of all; 0: all.
  std::int64_t reshard_size = 0;
  BackwardPrefetch backward_prefetch = BackwardPrefetch::pre;
  bool forward_prefetch = true;
  /// A gather waits until compute has freed the memory it is about to free. Otherwise gathers run as far ahead as the
  /// host does, and need more memory.
  bool limit_all_gathers = true;
  /// Sharded parameters are cast to the compute dtype for each gather, into their place in what is gathered. Otherwise
  /// they are cast once an update, into a copy of the shard that is kept.
  bool cast_at_gather = false;
  /// Collectives run on side streams, overlapping with compute.
  bool overlap = true;

  /// Rank 0's initial values are broadcast; ranks that had others are named.
  bool sync_module_states = false;
  /// Used instead of train.precision's compute dtype, and instead of float32 for sums (for float64: float64).
  std::optional<c10::ScalarType> param_dtype;
  std::optional<c10::ScalarType> reduce_dtype;

  /// Masters and optimizer state live in host memory and are updated there; the parameters' shards too.
  bool offload_optim = false;
  bool offload_param = false;
  /// … for this share of the trained parameters. Those of the first buckets stay on the device.
  double offload_ratio = 1;
  bool pin_memory = true;

  /// Gradients of 16 bits that are summed in 32 cross in 16: each rank gets the others' of its shard, and adds them up.
  bool exchange_gradients = false;

  std::string owner;  ///< the strategy that set it; empty: none did
};

}  // namespace strategy
CAPSTAN_END_NAMESPACE
