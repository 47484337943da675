#pragma once
#include <capstan/base/export.h>

#include <filesystem>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace ranks {

/// A library that the loader would take from LD_LIBRARY_PATH although this LibTorch came with its own.
struct ForeignLibrary {
  std::filesystem::path found;
  std::filesystem::path own;
};

/// Looks for cudart, cuDNN (all of its parts, which it opens by name itself) and NCCL. `library` is libtorch_cuda.so:
/// its dependencies and search path are read from the file. If it has a DT_RPATH, which the loader tries before
/// LD_LIBRARY_PATH, only cuDNN's parts can still be mixed.
std::vector<ForeignLibrary> foreign_libraries(const std::filesystem::path& library, const std::string& ld_library_path);

/// The same for these values.
struct LibraryNeeds {
  std::vector<std::string> names;              ///< "libcudart.so.13"
  std::vector<std::filesystem::path> folders;  ///< $ORIGIN resolved
  bool own_first = false;                      ///< DT_RPATH
};
std::vector<ForeignLibrary> foreign_libraries(const LibraryNeeds& needs, const std::string& ld_library_path);

/// Throws Error that names them.
void refuse_foreign_libraries(const std::vector<ForeignLibrary>& libraries);

}  // namespace ranks
CAPSTAN_END_NAMESPACE
