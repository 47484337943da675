#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/communicator.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "session/job.h"
#include "session/state_store.h"
#include "shard/engine.h"
#include "step/frozen_runner.h"
#include "step/interpreter.h"
#include "step/unit_runner.h"

CAPSTAN_BEGIN_NAMESPACE
namespace session {

/// A strategy's step hooks with its name for messages.
struct StepHooksOf {
  std::string plugin;
  std::unique_ptr<strategy::StepHooks> hooks;
  bool evaluation_weights = false;  ///< it claims what evaluation sees
};

/// One of the objective's models in memory.
struct FrozenSession {
  std::string name;
  std::unique_ptr<shard::Engine> engine;
  std::unique_ptr<step::FrozenRunner> runner;
};

/// The last stage: an assembled model in memory, with its peers.
struct Session {
  const Job* job = nullptr;  ///< which outlives it
  comm::Communicator* communicator = nullptr;
  c10::Device device{c10::DeviceType::CPU};
  std::vector<nn::Unit*> units;       ///< the whole model's; the runner has those that this rank computes
  std::unique_ptr<StateStore> state;  ///< strategies' own tensors
  std::vector<StepHooksOf> steps;     ///< those of the strategies that have any
  std::unique_ptr<shard::Engine> engine;
  std::unique_ptr<step::UnitRunner> runner;
  std::unique_ptr<step::Interpreter> interpreter;  ///< runs programs on it
  std::vector<FrozenSession> frozen;               ///< the objective's models, in its plan's order
  std::shared_ptr<comm::Group> world_device;       ///< all ranks, tensors on the run's device
  std::shared_ptr<comm::Group> world_host;         ///< all ranks, CPU tensors
  std::shared_ptr<comm::Group> norm_group;         ///< ranks whose gradients make one norm: all, but for local axes
  std::shared_ptr<comm::Group> divisor_group;  ///< CPU; data ranks whose gradients are summed; null: all of the world

  strategy::MeshGroups& groups() const { return *job->model->groups; }
  std::vector<step::FrozenRunner*> frozen_runners() const;
  /// What the engines' tensors and strategies' own take now, by part.
  std::vector<layout::Footprint> held() const;
  /// Axes on which gradients are not summed.
  const std::vector<layout::Axis>& local_axes() const { return job->model->local_axes; }
};

/// Connects the job's model with its peers, gives it memory, and fills every parameter from the model's folder or its
/// initialisation, or from the checkpoint that the run continues from, if there is one; throws Error with all faults
/// when that does not fit. Strategies wrap its units. `progress` is told (done, all) parameters. Collective over the
/// world. A job has one session at a time.
Session materialise(const Job& job, comm::Communicator& communicator,
                    const std::function<void(std::int64_t, std::int64_t)>& progress = {},
                    checkpoint::Reader* resumed = nullptr);

}  // namespace session
CAPSTAN_END_NAMESPACE
