#pragma once
#include <capstan/base/export.h>

#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace ranks {

/// The libraries that an ELF file names as NEEDED; empty when it cannot be read.
std::vector<std::string> needed_libraries(const std::string& file);

/// The folders in which an ELF file tells the loader to look for them, $ORIGIN resolved.
struct SearchPaths {
  std::vector<std::string> folders;
  bool before_environment = false;  ///< DT_RPATH, which comes before LD_LIBRARY_PATH; DT_RUNPATH comes after it
};
SearchPaths search_paths(const std::string& file);

}  // namespace ranks
CAPSTAN_END_NAMESPACE
