#pragma once
#include <capstan/base/export.h>

#include <filesystem>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace ranks {

/// Warnings about run.dir and run.cache (empty: none): under `home`, which is small and slow on a cluster (empty where
/// it is not), or less than `least` bytes free (by default 2 GiB: a run's logs and a small model's weights). For a
/// folder that does not exist yet, its nearest existing parent is checked.
std::vector<std::string> folder_warnings(const std::filesystem::path& run, const std::filesystem::path& cache,
                                         const std::filesystem::path& home, double least = 2.0 * 1024 * 1024 * 1024);

}  // namespace ranks
CAPSTAN_END_NAMESPACE
