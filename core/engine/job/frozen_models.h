#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/layout/source.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "job/assemble.h"

CAPSTAN_BEGIN_NAMESPACE
namespace job {

struct Job;

/// A model of the objective's plan (objective::ModelSpec).
struct FrozenPlugin {
  std::string name;                   ///< "teacher"
  std::optional<std::string> folder;  ///< where its values are; nothing: they are drawn as the trained model's were
  bool is_start = false;              ///< it is the trained model as it began
  Made<nn::Model> model;
  nn::ModelFacts facts;
};

/// The same as this rank computes it.
struct FrozenModel {
  FrozenPlugin plugin;
  Strategies strategies;  ///< they placed it; its layers may use their objects
  std::shared_ptr<const AssembledModel> model;
};

/// Finds the models of the objective's plan and makes their plugins, as config.json of their folders has them; then the
/// objective says what it finds wrong with them. Its options have the folders that were found.
std::vector<FrozenPlugin> load_frozen(const setup::Configuration& config, Plugins& plugins, plugin::Host& host,
                                      Diagnostics& faults);

/// Says which of them have too few positions for the samples, or too few words for the tokenizer.
void check_samples(const std::vector<FrozenPlugin>& frozen, const Samples& samples, Diagnostics& faults);
/// Says why one of them cannot be what the trained model began with.
void check_start(const std::vector<FrozenPlugin>& frozen, const Plugins& plugins,
                 const std::vector<std::unique_ptr<nn::Unit>>& units, Diagnostics& faults);
/// No record is trained, strategies (others of the same tables) only place them, and it communicates in the groups of
/// the trained model.
FrozenModel assemble_frozen(const FrozenPlugin& plugin, const Strategies& strategies, const Topology& topology,
                            const std::shared_ptr<strategy::MeshGroups>& groups);
/// Says what is wrong with their files: known before a rank reads them.
void check_frozen_files(const std::vector<FrozenModel>& frozen, const Plugins& plugins, Diagnostics& faults);

/// The values of one of them: its folder's, every fault of which is in one Error, or without a folder those that the
/// trained model was initialised with.
std::unique_ptr<layout::Source> frozen_values(const Job& job, const FrozenModel& frozen);

}  // namespace job
CAPSTAN_END_NAMESPACE
