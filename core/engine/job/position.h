#pragma once
#include <capstan/base/export.h>

#include <vector>

#include "job/assemble.h"
#include "job/frozen_models.h"
#include "job/samples.h"
#include "shard/plan.h"

CAPSTAN_BEGIN_NAMESPACE
namespace job {

/// What a prediction is made from: the stages before it.
struct PredictionInputs {
  const setup::Configuration& config;
  const Plugins& plugins;
  const Samples& samples;
  const AssembledModel& model;
  const std::vector<FrozenModel>& frozen;  ///< the objective's models
};

/// One of the ranks at a position on pp: what it computes and keeps.
struct Position {
  Topology topology;             ///< as that rank sees it
  shard::EngineOptions options;  ///< options of its engine
  std::vector<nn::Unit*> units;  ///< units of its stages
  shard::ShardPlan plan;         ///< how it keeps and moves their parameters
};

}  // namespace job
CAPSTAN_END_NAMESPACE
