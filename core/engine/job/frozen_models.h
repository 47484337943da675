#pragma once
#include <capstan/base/export.h>

#include <memory>
#include <optional>
#include <string>

#include "job/assemble.h"

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

}  // namespace job
CAPSTAN_END_NAMESPACE
