#pragma once
#include <capstan/base/export.h>

#include <filesystem>
#include <string>
#include <vector>

#include "gpus/elf.h"

CAPSTAN_BEGIN_NAMESPACE
namespace gpus {

/// A library that the loader would take from LD_LIBRARY_PATH although this LibTorch came with its own.
struct ForeignLibrary {
  std::filesystem::path found;
  std::filesystem::path own;
};

/// Looks for cudart, cuDNN (all of its parts, which it opens by name itself) and NCCL. `needs` are libtorch_cuda.so's.
/// Where its own folders come first, only cuDNN's parts can still be mixed.
std::vector<ForeignLibrary> foreign_libraries(const LibraryNeeds& needs, const std::string& ld_library_path);

/// Throws Error that names them.
void refuse_foreign_libraries(const std::vector<ForeignLibrary>& libraries);

}  // namespace gpus
CAPSTAN_END_NAMESPACE
