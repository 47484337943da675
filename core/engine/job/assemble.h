#pragma once
#include <capstan/base/export.h>
#include "nn/model_summary.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "job/samples.h"
#include "job/topology.h"
#include "shard/options.h"
#include "strategy/mesh_groups.h"
#include "strategy/rank_stages.h"

CAPSTAN_BEGIN_NAMESPACE
namespace job {

/// The model as its plugin builds it: logical shapes, nothing is placed or allocated.
struct BuiltModel {
  std::vector<std::unique_ptr<nn::Unit>> units;  ///< strategies change them later
  std::vector<nn::WeightPtr> own;                ///< the weights that the model's plugin made itself
  nn::ModelSummary built;                        ///< what the model was before strategies changed it
};

/// The fourth stage: the model as this rank computes it. Strategies have changed and placed it, its records say what
/// each rank holds, and nothing is allocated. `check` predicts from it, and a session gives the same units memory.
struct AssembledModel : BuiltModel {
  std::shared_ptr<strategy::MeshGroups> groups;  ///< groups of its layers, once a session has connected them
  std::string changes;                           ///< for people: what strategies made of it, a line each; may be empty
  bool has_frozen = false;                       ///< strategies train a part of it only
  std::vector<layout::Axis> local_axes;          ///< axes on which gradients are not summed
  std::shared_ptr<const strategy::Optimizer> optimizer;  ///< how it is trained
  std::vector<layout::Axis> overridden_sums;             ///< axes on which a strategy sums gradients, not the engine

  nn::SequenceCut sequence_cut;      ///< how ranks along cp share columns of rows; empty: they don't
  strategy::Stages stages;           ///< how it is cut along pp
  strategy::RankStages rank_stages;  ///< what of them this rank computes

  /// What a position on pp computes.
  strategy::RankStages stages_at(int position) const;
  /// The units of these stages, in their order.
  std::vector<nn::Unit*> units_of(const strategy::RankStages& some) const;
  std::vector<nn::Unit*> own_units() const { return units_of(rank_stages); }
  /// What a position does in a step of that many micro-batches.
  strategy::Program program(int micros, int position) const;
  strategy::Program program(int micros) const { return program(micros, rank_stages.position); }
};

/// Asks the plugin for its units: once in a command for each model.
BuiltModel build_model(const Made<nn::Model>& plugin);
/// Lets strategies change the units. Their structure() is called once: for another model take fresh_strategies().
void structure(BuiltModel& model, const Strategies& strategies);
/// Lets strategies change and place the units: those of the plugins, or others that were made from the same tables.
std::shared_ptr<const AssembledModel> assemble(const setup::Configuration& config, const Plugins& plugins,
                                               const Strategies& strategies, const Topology& topology, BuiltModel built,
                                               c10::Device device);

/// How [optimizer] and its groups update these records. Prediction and session ask the same rules. Throws Error for
/// each pattern that no record's name matches.
std::shared_ptr<const strategy::Optimizer> make_optimizer(const setup::OptimizerOptions& options,
                                                          const Plugins& plugins,
                                                          const std::vector<const layout::Param*>& records);
/// Asks the strategy that claims it how the model is cut into stages, and says in the records where each is then. A
/// record of several positions has a gradient on each, whose sum is taken. One stage where no strategy does. Throws
/// Error where the cut does not fit the model or the mesh, or where the mesh has pp ranks and no strategy cuts.
void cut_into_stages(AssembledModel& model, const Strategies& strategies, const Topology& topology);
/// Lets strategies place the units that they have changed, or those of a model that they don't change.
void place(AssembledModel& model, const Strategies& strategies, const Topology& topology);

std::vector<nn::Unit*> pointers(const std::vector<std::unique_ptr<nn::Unit>>& units);
/// The records of all units, each once.
std::vector<const layout::Param*> records_of(const std::vector<nn::Unit*>& units);
/// The records of weights.
std::vector<const layout::Param*> records_of(const std::vector<nn::WeightPtr>& weights);

/// Where this rank computes.
c10::Device device_of(const setup::Configuration& config);
/// What a configuration on this topology asks of the shard engine. Overridden sums are there by axis, without
/// functions.
shard::EngineOptions engine_options(const setup::Configuration& config, const Topology& topology,
                                    const Samples& samples, const AssembledModel& model, c10::Device device);
/// The value of checkpoint.save that is in effect: frozen parameters are left out where model.path gives them again,
/// unless the user says otherwise.
std::string settled_save(const setup::Configuration& config, const Plugins& plugins, const AssembledModel& model);

/// Dtypes for a value of train.precision: the one for computing (activations, gathered copies, raw gradients), the one
/// of masters and optimizer state, and the one of summed gradients.
///
///     fp32       float32 throughout            fp64   float64 throughout
///     bf16       bfloat16, float32, float32    fp16   float16, float32, float32 (Micikevicius et al. 2018)
///     bf16_pure  bfloat16 throughout
shard::Precision precision_of(const std::string& name, c10::Device device);

}  // namespace job
CAPSTAN_END_NAMESPACE
