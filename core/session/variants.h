#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "assembly/plugins.h"

CAPSTAN_BEGIN_NAMESPACE
namespace session {

/// Samples of a step, as the configuration has it on these ranks. Throws Error with its faults.
std::int64_t global_batch_of(const setup::JobRequest& request, plugin::Host& host);

/// How many ranks have samples of their own under other options, with micro-batches of 1 and this global batch; nothing
/// where the strategies, the model and the ranks do not allow it. Assembles nothing.
std::optional<std::int64_t> data_ranks_with(setup::JobRequest request, const std::vector<std::string>& overrides,
                                            std::int64_t global_batch, plugin::Host& host);

}  // namespace session
CAPSTAN_END_NAMESPACE
