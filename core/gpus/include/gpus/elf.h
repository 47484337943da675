#pragma once
#include <capstan/base/export.h>

#include <filesystem>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace gpus {

/// The libraries that a file needs, and where it tells the loader to look for them.
struct LibraryNeeds {
  std::vector<std::string> names;              ///< "libcudart.so.13"
  std::vector<std::filesystem::path> folders;  ///< $ORIGIN resolved
  bool own_first = false;  ///< DT_RPATH, which comes before LD_LIBRARY_PATH; DT_RUNPATH comes after it
};
/// Those of an ELF file; none when it cannot be read.
LibraryNeeds needs_of(const std::filesystem::path& file);

}  // namespace gpus
CAPSTAN_END_NAMESPACE
