#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace report {

/// One line about a GPU, as `nvidia-smi --query-gpu=timestamp,index,…,memory.used,memory.total --format=csv` writes it.
struct GpuSample {
  double seconds = 0;  ///< since the first line of its file
  double used_mib = 0;
  std::optional<double> utilisation;  ///< percent, where the file has the column
};

/// A host's gpu_memory/….csv, by the GPUs' indices.
struct GpuLog {
  std::string name;  ///< the file's, without its ending
  std::map<int, std::vector<GpuSample>> gpus;
};

/// A host's process tree, as psrecord writes it: resident memory over time.
struct CpuLog {
  std::string name;
  std::vector<double> real_mb;
};

/// What a log says in one line.
struct Usage {
  double peak = 0;
  double average = 0;
  std::vector<double> modes;  ///< the most frequent values, ascending; several if they are equally frequent
};

/// Of at least one value.
Usage usage_of(const std::vector<double>& values);

/// Reads a file of nvidia-smi's, with any columns in any order among which are timestamp, index and memory.used, with
/// or without units. A last line that was cut off is left out. Throws Error that names file and line otherwise.
GpuLog read_gpu_log(const std::filesystem::path& file);
/// Reads a file of psrecord's. The same errors.
CpuLog read_cpu_log(const std::filesystem::path& file);

/// Files that end so in a folder and in its folders, sorted; none where it does not exist.
std::vector<std::filesystem::path> files_ending(const std::filesystem::path& folder, const std::string& ending);

}  // namespace report
CAPSTAN_END_NAMESPACE
