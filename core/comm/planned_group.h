#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/group.h>

#include <memory>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace comm {

/// A group that is only looked at: sizes and ranks are right, and nobody is connected. For placing a model on a mesh
/// whose ranks are not there. On the meta device, whose tensors have no values, calls do nothing; elsewhere each is a
/// bug.
std::shared_ptr<Group> planned_group(const std::vector<int>& ranks, int rank, c10::Device device);

}  // namespace comm
CAPSTAN_END_NAMESPACE
