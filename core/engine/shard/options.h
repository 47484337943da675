#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/group.h>
#include <capstan/layout/mesh.h>
#include <capstan/strategy/shard_policy.h>
#include <capstan/strategy/step_hooks.h>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strategy/optimizer.h"
#include "strategy/rank_stages.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// Dtypes and device of a run's parameters.
struct Precision {
  c10::ScalarType compute = c10::ScalarType::Float;  ///< gathered copies, activations, raw gradients
  c10::ScalarType master = c10::ScalarType::Float;   ///< what the optimizer updates, its state, accumulated gradients
  c10::ScalarType reduce = c10::ScalarType::Float;   ///< gradients in collectives
  c10::Device device{c10::DeviceType::CPU};
};

/// When gradients are summed over the data ranks under accumulation.
enum class ReduceWhen { micro_step, step };

/// Makes or finds the group of the ranks that differ from this one only on these axes; with `part` > 0 only those of
/// its neighbours with the same position / part.
using GroupOf = std::function<std::shared_ptr<comm::Group>(const std::vector<layout::Axis>&, std::int64_t part)>;

/// Sums a bucket over an axis instead of the engine: a strategy's override point.
using ReduceOverride = std::function<void(strategy::Bucket&)>;

/// A backward of a step.
struct Backward {
  std::size_t stage = 0;  ///< its place in EngineOptions::stages
  bool completes = true;  ///< false: some weights' gradients come in a later one, and the others wait in the leaves
};

struct EngineOptions {
  layout::Mesh mesh;             ///< all ranks
  int rank = 0;                  ///< this one
  Precision precision;           ///< dtypes and device
  strategy::ShardPolicy policy;  ///< how each role is kept and moved
  ReduceWhen reduce = ReduceWhen::step;
  std::int64_t accumulation = 1;  ///< micro-steps a step
  bool gathers_once = false;      ///< sharded parameters stay gathered from a step's first forward to their last use
  bool holds = false;             ///< … from an evaluation's first forward to its end: Engine::hold()
  /// What this rank computes of the model, and a step's backwards in their order. None: the units are one whole model,
  /// and backward comes once a micro-step.
  std::optional<strategy::RankStages> stages;
  std::vector<Backward> backwards;
  /// The group of the ranks along these axes that hold what is laid out so; null where there are no stages.
  std::function<std::shared_ptr<comm::Group>(const std::vector<layout::Axis>&, const layout::Layout&)> holders;
  std::int64_t micro_tokens = 0;  ///< tokens of a rank's micro-batch at most, padding included; 0: unknown
  /// Elements of a bucket's gradients, counted over all ranks' shards, that pass through staging at once.
  std::int64_t most_staged = std::int64_t{1} << 27;
  bool deterministic = false;  ///< every mode sums gradients by the same calls in the same layout
  bool coalesce = false;       ///< collectives take lists of tensors at no cost: full weights in place
  /// How trained records are updated, and so what states they have; null where nothing is.
  std::shared_ptr<const strategy::Optimizer> optimizer;
  /// By axis; a prediction knows only which axes have one, and stores empty functions.
  std::map<layout::Axis, ReduceOverride> reduce_overrides;

  bool accumulates() const { return accumulation > 1 || backwards.size() > 1; }
  /// Full gradients of several micro-steps are added up and summed once.
  bool waits() const { return accumulates() && reduce == ReduceWhen::step; }
  std::string owner() const { return policy.owner.empty() ? "no_shard" : policy.owner; }
};

}  // namespace shard
CAPSTAN_END_NAMESPACE
