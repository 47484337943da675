#pragma once
#include <capstan/base/export.h>

#include <memory>
#include <optional>
#include <string>

#include "job/assemble.h"
#include "job/plugins.h"

CAPSTAN_BEGIN_NAMESPACE
namespace job {

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

/// No record is trained, strategies (others of the same tables) only place them, and it communicates in the groups of
/// the trained model.
FrozenModel assemble_frozen(const FrozenPlugin& plugin, const Strategies& strategies, const Topology& topology,
                            const std::shared_ptr<strategy::MeshGroups>& groups);

}  // namespace job
CAPSTAN_END_NAMESPACE
