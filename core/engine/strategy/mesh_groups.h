#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/communicator.h>
#include <capstan/layout/layout.h>
#include <capstan/layout/mesh.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/planned_group.h"

CAPSTAN_BEGIN_NAMESPACE
namespace strategy {

/// Groups over the mesh's axes, each made once. They can be handed out before the ranks have met: a model is placed
/// with them by `check`, and by `run`, which connects them then. All ranks ask for them in the same order.
class MeshGroups {
 public:
  MeshGroups(layout::Mesh mesh, int rank, c10::Device device) : mesh_(std::move(mesh)), rank_(rank), device_(device) {}
  /// With `part` > 0 it has only the neighbours along the axes that share position / part.
  std::shared_ptr<comm::Group> operator()(const std::vector<layout::Axis>& axes, std::int64_t part = 0);
  /// … of these only the ranks that hold what is laid out so, this one among them.
  std::shared_ptr<comm::Group> holders(const std::vector<layout::Axis>& axes, const layout::Layout& layout);
  /// The same ranks in a communicator of `owner`'s own, for tensors on `device`, once connected.
  std::shared_ptr<comm::Group> own(const std::string& owner, const std::vector<layout::Axis>& axes, c10::Device device);
  /// Makes those that were handed out, in their order, and from here on each at its first use. Collective over the
  /// world.
  void connect(comm::Communicator& communicator);

 private:
  layout::Mesh mesh_;
  int rank_;
  c10::Device device_;
  comm::Communicator* communicator_ = nullptr;
  std::map<std::pair<std::vector<layout::Axis>, std::int64_t>, std::shared_ptr<comm::PlannedGroup>> groups_;
  std::vector<std::shared_ptr<comm::PlannedGroup>> in_order_;
  std::map<std::string, std::shared_ptr<comm::Group>> own_;                  ///< by name
  std::map<std::vector<int>, std::shared_ptr<comm::PlannedGroup>> holders_;  ///< by members

  std::shared_ptr<comm::PlannedGroup> make(std::string name, const std::vector<int>& members);
};

}  // namespace strategy
CAPSTAN_END_NAMESPACE
