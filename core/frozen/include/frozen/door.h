#pragma once
// libcapstan_frozen.so: the models of an objective's plan that are not trained. The engine opens it for a plan that has
// any.
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/layout/source.h>

#include <memory>
#include <vector>

#include "job/frozen_models.h"
#include "plugin/side_library.h"

CAPSTAN_BEGIN_NAMESPACE
namespace job {
struct Job;
}
namespace frozen {

/// The library's functions.
struct Door {
  /// Finds the models of the objective's plan and makes their plugins, as config.json of their folders has them; then
  /// the objective says what it finds wrong with them. Its options have the folders that were found.
  std::vector<job::FrozenPlugin> (*load)(const setup::Configuration& config, job::Plugins& plugins, plugin::Host& host,
                                         Diagnostics& faults);
  /// Says which of them have too few positions for the samples, or too few words for the tokenizer.
  void (*check_samples)(const std::vector<job::FrozenPlugin>& frozen, const job::Samples& samples, Diagnostics& faults);
  /// Says why one of them cannot be what the trained model began with.
  void (*check_start)(const std::vector<job::FrozenPlugin>& frozen, const job::Plugins& plugins,
                      const std::vector<std::unique_ptr<nn::Unit>>& units, Diagnostics& faults);
  /// No record is trained, strategies (others of the same tables) only place them, and it communicates in the groups of
  /// the trained model.
  job::FrozenModel (*assemble)(const job::FrozenPlugin& plugin, const job::Strategies& strategies,
                               const job::Topology& topology, const std::shared_ptr<strategy::MeshGroups>& groups);
  /// Says what is wrong with their files: known before a rank reads them.
  void (*check_files)(const std::vector<job::FrozenModel>& frozen, const job::Plugins& plugins, Diagnostics& faults);
  /// The values of one of them: its folder's, every fault of which is in one Error, or without a folder those that the
  /// trained model was initialised with.
  std::unique_ptr<layout::Source> (*values)(const job::Job& job, const job::FrozenModel& frozen);
};

/// Opens the library the first time. Throws Error where its file is missing.
inline const Door& door() { return plugin::door_of<Door>("frozen"); }

}  // namespace frozen
CAPSTAN_END_NAMESPACE
