#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/group.h>

#include <memory>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace comm {

/// A group without connections, with the right sizes and ranks: for placing a model on a mesh whose ranks do not
/// run. On the meta device, whose tensors have no values, calls do nothing; on other devices every call is a
/// bug.
std::shared_ptr<Group> planned_group(const std::vector<int>& ranks, int rank, c10::Device device);

}  // namespace comm
CAPSTAN_END_NAMESPACE
