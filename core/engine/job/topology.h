#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/layout/mesh.h>
#include <capstan/strategy/strategy.h>

#include "job/plugins.h"
#include "setup/batch_shape.h"

CAPSTAN_BEGIN_NAMESPACE
namespace job {

/// The third stage: how the ranks share the work.
struct Topology {
  layout::Mesh mesh;
  int rank = 0;
  int ranks_per_node = 1;
  setup::BatchShape batch;
  strategy::ShardPolicy policy;
  bool gathers_once = false;     ///< sharded parameters stay gathered through a step: train.regather
  bool takes_mean_load = false;  ///< see strategy::Placement

  /// This rank's position among those that have samples of their own.
  std::int64_t data_coordinate() const { return mesh.position(rank, layout::sample_axes); }
  /// Rows are padded to this many columns, so that each rank that shares them has one: layers see no empty row.
  std::int64_t least_columns() const { return mesh.size(layout::Axis::cp); }
  /// This rank's position on pp.
  int position() const { return mesh.coordinate(rank, layout::Axis::pp); }
  /// The same as the rank sees it that has this rank's place at another position on pp.
  Topology at_position(int position) const;
  /// Does this rank give what its stage computes of its tokens, as one of those that compute the same?
  bool represents_stage() const {
    return std::all_of(layout::axis_table.begin(), layout::axis_table.end(), [&](const auto& facts) {
      const bool has_other_tokens = facts.other_samples || facts.splits_sequence;
      return has_other_tokens || facts.axis == layout::Axis::pp || mesh.coordinate(rank, facts.axis) == 0;
    });
  }
  /// Does this rank represent its data coordinate? The one does whose position on all other axes is 0.
  bool represents_coordinate() const {
    return std::all_of(layout::axis_table.begin(), layout::axis_table.end(), [&](const auto& facts) {
      return facts.other_samples || mesh.coordinate(rank, facts.axis) == 0;
    });
  }
};

/// Asks the strategies that there are for the mesh, their claims and the policy. With faults sizes may mean nothing.
Topology make_topology(const setup::Configuration& config, const Plugins& plugins, Diagnostics& faults);

/// What strategies are told of the run. `sample_length`: 0 where it is not known yet.
strategy::Facts facts_of(const setup::Configuration& config, const nn::ModelFacts& model, const Topology& topology,
                         std::int64_t sample_length);

/// Other objects of the same strategies that have gone through the phases that may change them: for another model than
/// theirs, since a strategy's structure() is called once.
Strategies fresh_strategies(const Strategies& originals, const Topology& topology);

/// [train] with the sizes of batches as they are.
config::Options<setup::TrainOptions> settled(const config::Options<setup::TrainOptions>& train,
                                             const setup::BatchShape& batch);

}  // namespace job
CAPSTAN_END_NAMESPACE
