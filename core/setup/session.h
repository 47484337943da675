#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/communicator.h>
#include <capstan/strategy/unit_runner.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "setup/job.h"
#include "setup/state_store.h"
#include "shard/engine.h"

CAPSTAN_BEGIN_NAMESPACE
namespace setup {

/// Groups over the mesh's axes, each made once, in the order in which they are first asked for (the same on all ranks).
class MeshGroups {
 public:
  MeshGroups(comm::Communicator& communicator, const layout::Mesh& mesh, c10::Device device)
      : communicator_(communicator), mesh_(mesh), device_(device) {}
  /// With `part` > 0 only the neighbours along the axes that share position / part.
  std::shared_ptr<comm::Group> operator()(const std::vector<layout::Axis>& axes, std::int64_t part = 0);

 private:
  comm::Communicator& communicator_;
  layout::Mesh mesh_;
  c10::Device device_;
  std::map<std::pair<std::vector<layout::Axis>, std::int64_t>, std::shared_ptr<comm::Group>> groups_;
};

/// A strategy's step hooks with its name for messages.
struct StepHooksOf {
  std::string plugin;
  std::unique_ptr<strategy::StepHooks> hooks;
};

/// A job in memory: structure, placement, materialise and wrap are done.
struct Session {
  comm::Communicator* communicator = nullptr;
  c10::Device device{c10::DeviceType::CPU};
  std::vector<std::unique_ptr<nn::Unit>> units;
  std::shared_ptr<MeshGroups> groups;
  std::unique_ptr<StateStore> state;              ///< strategies' own tensors
  std::vector<StepHooksOf> steps;                 ///< of the strategies that have any
  std::unique_ptr<strategy::OptimizerRule> rule;  ///< a strategy's, or AdamW
  std::vector<layout::Axis> local_axes;           ///< on which gradients are not summed
  std::unique_ptr<shard::Engine> engine;
  std::unique_ptr<strategy::UnitRunner> runner;
  std::shared_ptr<comm::Group> world_device;   ///< all ranks, tensors on the run's device
  std::shared_ptr<comm::Group> world_host;     ///< all ranks, CPU tensors
  std::shared_ptr<comm::Group> norm_group;     ///< ranks whose gradients make one norm: all, but for local axes
  std::shared_ptr<comm::Group> divisor_group;  ///< CPU; data ranks whose gradients are summed; null: all of the world
};

/// Builds the model on logical shapes, lets strategies change, place and wrap it, and fills every parameter from
/// the model's folder or its initialisation, or from the checkpoint that the run goes on from, if there is one; throws
/// Error with all faults when that does not fit. `progress` is told (done, all) parameters. Collective over the world.
Session materialise(const Job& job, comm::Communicator& communicator,
                    const std::function<void(std::int64_t, std::int64_t)>& progress = {},
                    checkpoint::Reader* resumed = nullptr);

}  // namespace setup
CAPSTAN_END_NAMESPACE
