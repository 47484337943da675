#include "assembly/mesh_groups.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <string>

namespace capstan::assembly {
namespace {

std::string axes_text(const std::vector<layout::Axis>& axes) {
  std::vector<std::string> names;
  for (const auto axis : axes) names.emplace_back(layout::axis_name(axis));
  return join(names, "x");
}

}  // namespace

std::shared_ptr<comm::Group> MeshGroups::operator()(const std::vector<layout::Axis>& axes, std::int64_t part) {
  auto& group = groups_[{axes, part}];
  if (group) return group;
  auto members = mesh_.ranks_along(axes, rank_);
  auto position = mesh_.position(rank_, axes);
  if (part > 0) {
    const auto begin = position / part * part;
    members = {members.begin() + begin, members.begin() + begin + part};
    position -= static_cast<int>(begin);
  }
  auto name = cat(axes_text(axes), part > 0 ? cat(" by ", part) : "", " of ", members.front());
  group = std::make_shared<comm::PlannedGroup>(std::move(name), members, static_cast<int>(position), device_);
  in_order_.push_back(group);
  if (communicator_) group->connect(*communicator_);
  return group;
}

std::shared_ptr<comm::Group> MeshGroups::own(const std::string& owner, const std::vector<layout::Axis>& axes,
                                             c10::Device device) {
  CAPSTAN_ASSERT(communicator_ != nullptr);
  const auto members = mesh_.ranks_along(axes, rank_);
  const auto name = cat(owner, "'s ", axes_text(axes), device.is_cpu() ? " on CPU of " : " of ", members.front());
  auto& group = own_[name];
  if (!group) group = communicator_->group(name, members, device);
  return group;
}

void MeshGroups::connect(comm::Communicator& communicator) {
  communicator_ = &communicator;
  own_.clear();  // another session's
  for (const auto& group : in_order_) group->connect(communicator);
}

}  // namespace capstan::assembly
