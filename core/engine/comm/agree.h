#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/communicator.h>
#include <capstan/comm/group.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace comm {

/// A group of all ranks, by default for tensors in host memory. All call it alike; a name is used once.
std::shared_ptr<Group> group_of_all(Communicator& communicator, const std::string& name,
                                    c10::Device device = c10::Device(c10::DeviceType::CPU));

/// Every rank's text, by its place in the group, on the group's device. A collective.
std::vector<std::string> exchange_texts(comm::Group& group, const std::string& mine, std::string_view label);

/// Runs `work` on this rank, and returns all ranks' results by their place in the group (on CPU). Where it throws on
/// any, all ranks throw the first failing rank's Error, with a line of context that names the failed ranks and `doing`
/// ("saving /run/checkpoints/step-00000100"). Any other exception becomes a std::logic_error on all of them.
/// A collective, but no time limit holds for the work: ranks tell each other, from a thread of their own, that they are
/// at it, and the first one says after 40 s, and then each minute, which still are. So `work` uses neither the group
/// nor, below, the communicator.
std::vector<std::string> agree(comm::Group& group, const std::string& doing, std::string_view label,
                               const std::function<std::string()>& work);

/// The same for all ranks. `doing`: "making the run's folder".
std::vector<std::string> agree(Communicator& communicator, const std::string& doing,
                               const std::function<std::string()>& work);

/// The same where only the first rank works, and all get its result.
std::string from_first_rank(Communicator& communicator, const std::string& doing,
                            const std::function<std::string()>& work);

}  // namespace comm
CAPSTAN_END_NAMESPACE
