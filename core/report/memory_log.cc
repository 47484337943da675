#include "report/memory_log.h"

#include <capstan/base/files.h>
#include <capstan/base/paths.h>

namespace capstan::report {

namespace fs = std::filesystem;

GpuLog read_gpu_log(const fs::path& file) {
  return {file.stem().string(), monitor::read_gpu_memory_log(read_file(file), file.string())};
}

CpuLog read_cpu_log(const fs::path& file) {
  return {file.stem().string(), monitor::read_cpu_memory_log(read_file(file), file.string())};
}

std::vector<fs::path> files_ending(const fs::path& folder, const std::string& ending) {
  std::vector<fs::path> files;
  for (const auto& entry : entries_if_there(folder)) {
    if (is_folder(entry)) {
      const auto inner = files_ending(entry, ending);
      files.insert(files.end(), inner.begin(), inner.end());
    } else if (entry.extension() == ending) {
      files.push_back(entry);
    }
  }
  return files;
}

}  // namespace capstan::report
