#include "ranks/shared_folders.h"

#include <capstan/base/text.h>

#include <algorithm>

#include "checkpoint/durable_file.h"

namespace capstan::ranks {
namespace {

namespace fs = std::filesystem;

bool lies_under(const fs::path& folder, const fs::path& home) {
  if (home.empty() || home == "/") return false;
  const auto inner = fs::weakly_canonical(folder);
  const auto outer = fs::weakly_canonical(home);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

// Where the folder is or will be; negative if it is unknown.
double free_space(const fs::path& folder) {
  std::error_code error;
  fs::path there = fs::absolute(folder, error);
  while (!error && !fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  return static_cast<double>(checkpoint::free_bytes(there));
}

}  // namespace

std::vector<std::string> folder_warnings(const fs::path& run, const fs::path& cache, const fs::path& home,
                                         double least) {
  std::vector<std::string> warnings;
  for (const auto& [option, folder] : {std::pair("run.dir", run), std::pair("run.cache", cache)}) {
    if (folder.empty()) continue;
    const auto named = cat(option, " = ", folder.string());
    if (lies_under(folder, home)) {
      warnings.push_back(cat(named,
                             " lies under $HOME, which is small and slow on most clusters: "
                             "name a folder on the parallel or scratch file system"));
    }
    const double free = free_space(folder);
    if (free >= 0 && free < least) warnings.push_back(cat(named, " has ", bytes_text(free), " of free space"));
  }
  return warnings;
}

}  // namespace capstan::ranks
