#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/communicator.h>
#include <capstan/strategy/unit_runner.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "setup/job.h"
#include "shard/engine.h"

CAPSTAN_BEGIN_NAMESPACE
namespace setup {

/// Groups over the mesh's axes, each made once, in the order in which they are first asked for (the same on all ranks).
class MeshGroups {
 public:
  MeshGroups(comm::Communicator& communicator, const layout::Mesh& mesh, c10::Device device)
      : communicator_(communicator), mesh_(mesh), device_(device) {}
  std::shared_ptr<comm::Group> operator()(const std::vector<layout::Axis>& axes);

 private:
  comm::Communicator& communicator_;
  layout::Mesh mesh_;
  c10::Device device_;
  std::map<std::vector<layout::Axis>, std::shared_ptr<comm::Group>> groups_;
};

/// A job in memory: structure, placement, materialise and wrap are done.
struct Session {
  comm::Communicator* communicator = nullptr;
  c10::Device device{c10::DeviceType::CPU};
  std::vector<std::unique_ptr<nn::Unit>> units;
  std::unique_ptr<shard::Engine> engine;
  std::unique_ptr<strategy::UnitRunner> runner;
  std::shared_ptr<comm::Group> world_device;  ///< all ranks, tensors on the run's device
  std::shared_ptr<comm::Group> world_host;    ///< all ranks, CPU tensors
};

/// Builds the model on logical shapes, lets strategies change, place and wrap it, and fills every parameter from
/// the model's folder or its initialisation. `progress` is told (done, all) parameters. Collective over the world.
Session materialise(const Job& job, comm::Communicator& communicator,
                    const std::function<void(std::int64_t, std::int64_t)>& progress = {});

}  // namespace setup
CAPSTAN_END_NAMESPACE
