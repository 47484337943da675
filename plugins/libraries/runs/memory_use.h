#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace runs {

/// What a log of memory says, in the log's own unit (MiB, which psrecord calls MB).
struct MemoryUse {
  double peak = 0;
  double mean = 0;
  std::vector<std::int64_t>
      modes;              ///< the most frequent whole numbers, ascending: several if they are equally frequent
  double mode_share = 0;  ///< how many of the samples have one of them, the same for each: 0.4 is 40 %
};
/// `samples` has at least one.
MemoryUse memory_use(const std::vector<double>& samples);

/// A line of nvidia-smi's about one GPU.
struct GpuMemorySample {
  double seconds = 0;  ///< since the first line of its file; 0 where the file has no column timestamp
  double used_mib = 0;
  std::optional<double> utilisation;  ///< percent, where the file has the column and a number in it
};
/// `samples` has at least one.
MemoryUse memory_use(const std::vector<GpuMemorySample>& samples);

/// Samples by the GPU's index, from what `nvidia-smi --query-gpu=… --format=csv[,nounits][,noheader]`
/// writes: columns by their names; without a header timestamp, index, name, memory.used, memory.total or timestamp,
/// index, utilization.gpu, memory.used, memory.total. A last line that was cut off is left out. `file`: named by
/// errors, with the line. Throws Error for a line that is no such row.
std::map<int, std::vector<GpuMemorySample>> read_gpu_memory_log(const std::string& text, const std::string& file);

/// What psrecord's log says of a process tree.
struct CpuMemory {
  std::vector<double> seconds;  ///< each sample's, since the log's beginning
  std::vector<double> real_mb;  ///< the column "Real (MB)"
};
/// Reads a plain log or a csv one. Throws Error as above.
CpuMemory read_cpu_memory_log(const std::string& text, const std::string& file);
/// Is it the second kind of log?
bool is_cpu_memory_log(const std::string& text);

/// A host's gpu_memory/….csv, by the GPUs' indices.
struct GpuLog {
  std::string name;  ///< the file's, without its ending
  std::map<int, std::vector<GpuMemorySample>> gpus;
};
GpuLog read_gpu_log(const std::filesystem::path& file);

/// A host's cpu_memory/….txt.
struct CpuLog : CpuMemory {
  std::string name;
};
CpuLog read_cpu_log(const std::filesystem::path& file);

/// "1000, 3000".
std::string modes_text(const MemoryUse& use);
/// "1000 (40 %)": the lowest mode and its share of the samples, which says how much it means.
std::string mode_text(const MemoryUse& use);
/// "[gpu_memory_log - GPU 0] Peak = 16273 MiB, Avg = 1924.11 MiB, Mode = 1 MiB".
std::string gpu_memory_line(int gpu, const MemoryUse& use);
/// Three lines after "CPU Memory Usage": Peak, Average, Mode.
std::string cpu_memory_lines(const MemoryUse& use);

}  // namespace runs
