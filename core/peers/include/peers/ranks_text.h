#pragma once
#include <capstan/base/export.h>

#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace peers {

/// {5} -> "rank 5"; {0, 1, 2, 3, 7} -> "ranks 0-3, 7". `ranks` ascend.
std::string ranks_text(const std::vector<int>& ranks);

}  // namespace peers
CAPSTAN_END_NAMESPACE
