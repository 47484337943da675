#pragma once
#include <capstan/base/export.h>

#include <filesystem>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace ranks {

/// Folders that a run writes to.
struct FolderFacts {
  std::filesystem::path run;    ///< run.dir
  std::filesystem::path cache;  ///< empty: none
  bool in_slurm = false;        ///< on a cluster $HOME is small and slow
};

/// Warnings about them: under `home` on a cluster, or less than `least` bytes free (by default 2 GiB: a run's logs and
/// a small model's weights). For a folder that does not exist yet, its nearest existing parent is checked.
std::vector<std::string> folder_warnings(const FolderFacts& folders, const std::filesystem::path& home,
                                         double least = 2.0 * 1024 * 1024 * 1024);

/// Bytes that an unprivileged user may still write where `folder` is or will be; negative if unknown.
double free_bytes(const std::filesystem::path& folder);

}  // namespace ranks
CAPSTAN_END_NAMESPACE
