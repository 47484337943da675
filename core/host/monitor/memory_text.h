#pragma once
#include <capstan/base/export.h>
#include <capstan/monitor/monitor.h>

#include <cstdint>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace monitor {

/// For people, when a GPU has no memory left: a table of what a rank's parts were predicted to take of it and what they
/// hold. `held`: empty while the model is not in memory yet. `peak`: the most bytes in tensors at once. Parts in host
/// memory are left out.
std::string memory_text(const std::vector<MemoryPart>& predicted, const std::vector<MemoryPart>& held,
                        std::int64_t peak);

}  // namespace monitor
CAPSTAN_END_NAMESPACE
