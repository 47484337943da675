#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/group.h>
#include <capstan/layout/mesh.h>
#include <capstan/nn/model.h>
#include <capstan/strategy/unit_runner.h>

#include <vector>

#include "shard/engine.h"

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// The ranks over which a step's numbers are summed.
struct Sums {
  const std::vector<layout::Axis>& local_axes;  ///< on which gradients are not summed
  comm::Group& world;                           ///< all ranks, tensors on the run's device
  comm::Group& norm;                            ///< ranks whose gradients make one norm: all, but for local axes
  comm::Group* divisor;                         ///< CPU; data ranks whose gradients are summed; null: all of the world
};

/// A model that has its memory, as training sees it: units, what runs them, what moves their parameters.
struct LoadedModel {
  c10::Device device;
  const std::vector<nn::Unit*>& units;
  shard::Engine& engine;
  strategy::UnitRunner& runner;
  Sums sums;
};

}  // namespace train
CAPSTAN_END_NAMESPACE
