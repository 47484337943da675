#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runs/memory_use.h"

namespace runs {

/// A host's gpu_memory/….csv, by the GPUs' indices.
struct GpuLog {
  std::string name;  ///< the file's, without its ending
  std::map<int, std::vector<GpuMemorySample>> gpus;
};

/// A host's process tree, as psrecord writes it: resident memory over time.
struct CpuLog {
  std::string name;
  std::vector<double> real_mb;
  std::vector<double> seconds;  ///< of each sample, since the log's beginning
};

/// Errors are those of read_gpu_memory_log and read_cpu_memory_log.
GpuLog read_gpu_log(const std::filesystem::path& file);
CpuLog read_cpu_log(const std::filesystem::path& file);

/// Files that end so in a folder and in its folders, sorted; none where it does not exist.
std::vector<std::filesystem::path> files_ending(const std::filesystem::path& folder, const std::string& ending);

}  // namespace runs
