#pragma once
#include <capstan/base/export.h>

#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace app {

/// The libraries that an ELF file names as NEEDED; empty when it cannot be read.
std::vector<std::string> needed_libraries(const std::string& file);

}  // namespace app
CAPSTAN_END_NAMESPACE
