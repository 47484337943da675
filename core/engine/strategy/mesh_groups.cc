#include "strategy/mesh_groups.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <string>

#include "peers/ranks_text.h"

namespace capstan::strategy {
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
  if (part > 0) {
    const auto begin = mesh_.position(rank_, axes) / part * part;
    members = {members.begin() + begin, members.begin() + begin + part};
  }
  group = make(cat(axes_text(axes), part > 0 ? cat(" by ", part) : "", " of ", members.front()), members);
  return group;
}

std::shared_ptr<comm::Group> MeshGroups::holders(const std::vector<layout::Axis>& axes, const layout::Layout& layout) {
  auto members = mesh_.ranks_along(axes, rank_);
  std::erase_if(members, [&](int rank) { return !layout.holds(mesh_, rank); });
  auto& group = holders_[members];
  if (!group) group = make(cat(axes_text(axes), " among holders, ", peers::ranks_text(members)), members);
  return group;
}

std::shared_ptr<comm::PlannedGroup> MeshGroups::make(std::string name, const std::vector<int>& members) {
  const auto position = std::find(members.begin(), members.end(), rank_) - members.begin();
  auto group = std::make_shared<comm::PlannedGroup>(std::move(name), members, static_cast<int>(position), device_);
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

}  // namespace capstan::strategy
