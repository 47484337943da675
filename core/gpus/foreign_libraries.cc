#include "gpus/foreign_libraries.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>

namespace capstan::gpus {
namespace {

namespace fs = std::filesystem;

bool matters(const std::string& name, bool own_first) {
  if (name.starts_with("libcudnn")) return true;
  return !own_first && (name.starts_with("libcudart.so") || name.starts_with("libnccl.so"));
}

fs::path find_in(const std::vector<fs::path>& folders, const std::string& name) {
  for (const fs::path& folder : folders) {
    std::error_code absent;
    if (fs::exists(folder / name, absent)) return folder / name;
  }
  return {};
}

/// libcudnn.so.9 opens libcudnn_ops.so.9 and others: all that are in its folder.
std::vector<std::string> with_cudnn_parts(std::vector<std::string> names, const std::vector<fs::path>& folders) {
  const auto needed = names;
  for (const std::string& name : needed) {
    if (!name.starts_with("libcudnn")) continue;
    std::error_code absent;
    for (const auto& file : fs::directory_iterator(find_in(folders, name).parent_path(), absent)) {
      const auto part = file.path().filename().string();
      if (part.starts_with("libcudnn_") && part.find(".so.") != std::string::npos) names.push_back(part);
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace

std::vector<ForeignLibrary> foreign_libraries(const LibraryNeeds& needs, const std::string& ld_library_path) {
  std::vector<fs::path> before;
  for (const std::string& folder : split(ld_library_path, ':')) {
    if (!folder.empty()) before.emplace_back(folder);
  }
  std::vector<ForeignLibrary> foreign;
  for (const std::string& name : with_cudnn_parts(needs.names, needs.folders)) {
    if (!matters(name, needs.own_first)) continue;
    const auto found = find_in(before, name);
    const auto own = find_in(needs.folders, name);
    if (found.empty() || own.empty() || fs::canonical(found) == fs::canonical(own)) continue;
    foreign.push_back({found, own});
  }
  return foreign;
}

void refuse_foreign_libraries(const std::vector<ForeignLibrary>& libraries) {
  if (libraries.empty()) return;
  std::string list;
  for (const auto& library : libraries)
    list += cat("\n    ", library.found.string(), " instead of ", library.own.string());
  throw Error(cat("LD_LIBRARY_PATH puts other CUDA libraries before those that this LibTorch was built for:", list),
              "unload that module (module unload cuda cudnn nccl), or take the folder out of LD_LIBRARY_PATH");
}

}  // namespace capstan::gpus
