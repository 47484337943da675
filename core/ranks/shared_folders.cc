#include "ranks/shared_folders.h"

#include <capstan/base/text.h>

#include <sys/statvfs.h>

#include <algorithm>

namespace capstan::ranks {
namespace {

namespace fs = std::filesystem;

bool lies_under(const fs::path& folder, const fs::path& home) {
  if (home.empty() || home == "/") return false;
  const auto inner = fs::weakly_canonical(folder);
  const auto outer = fs::weakly_canonical(home);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

void judge(const char* option, const fs::path& folder, const FolderFacts& facts, const fs::path& home, double least,
           std::vector<std::string>& warnings) {
  if (folder.empty()) return;
  if (facts.in_slurm && lies_under(folder, home)) {
    warnings.push_back(cat(option, " = ", folder.string(),
                           " lies under $HOME, which is small and slow on most clusters: "
                           "name a folder on the parallel or scratch file system"));
  }
  const double free = free_bytes(folder);
  if (free >= 0 && free < least) {
    warnings.push_back(cat(option, " = ", folder.string(), " has ", bytes_text(free), " of free space"));
  }
}

}  // namespace

double free_bytes(const fs::path& folder) {
  std::error_code error;
  fs::path there = fs::absolute(folder, error);
  while (!error && !fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  struct statvfs info {};
  if (statvfs(there.c_str(), &info) != 0) return -1;
  return static_cast<double>(info.f_bavail) * static_cast<double>(info.f_frsize);
}

std::vector<std::string> folder_warnings(const FolderFacts& folders, const fs::path& home, double least) {
  std::vector<std::string> warnings;
  judge("run.dir", folders.run, folders, home, least, warnings);
  judge("run.cache", folders.cache, folders, home, least, warnings);
  return warnings;
}

}  // namespace capstan::ranks
