#pragma once
#include <capstan/base/export.h>

#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace config {

/// The choice that another program's word means: in other letters ("FULL_SHARD"), with more words before or after
/// it ("backward_post", "bf16-mixed"), with fewer words ("hybrid"), else mistyped. Empty: none is near, or several
/// are.
std::string nearest_choice(const std::string& typed, const std::vector<std::string>& choices);

}  // namespace config
CAPSTAN_END_NAMESPACE
