#pragma once
#include <capstan/base/export.h>

#include <string>
#include <vector>

#include "job/plugins.h"

CAPSTAN_BEGIN_NAMESPACE
namespace job {

/// Does the strategy claim this override point?
bool claims(const strategy::Strategy& strategy, const std::string& point);
/// Does one of them?
bool any_claims(const Strategies& strategies, const std::string& point);

/// Throws Error at the plugin: it claims the override point, but its method returned nothing.
[[noreturn]] void claims_in_vain(const Made<strategy::Strategy>& made, const std::string& point,
                                 const std::string& method);

/// The axes on which a strategy claims the sum of gradients.
std::vector<layout::Axis> overridden_sums(const Strategies& strategies);

}  // namespace job
CAPSTAN_END_NAMESPACE
