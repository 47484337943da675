#include "runs/memory_log.h"

#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <cctype>
#include <cstdlib>

namespace runs {

using namespace capstan;

namespace fs = std::filesystem;

GpuLog read_gpu_log(const fs::path& file) {
  return {file.stem().string(), read_gpu_memory_log(read_file(file), file.string())};
}

CpuLog read_cpu_log(const fs::path& file) {
  const auto text = read_file(file);
  CpuLog log{file.stem().string(), read_cpu_memory_log(text, file.string()), {}};
  // Whole lines of samples begin with the seconds, in both kinds of log; they have been judged above.
  for (const auto& line : split(text, '\n')) {
    const auto sample = trim(line);
    if (sample.empty() || std::isdigit(static_cast<unsigned char>(sample[0])) == 0) continue;
    if (log.seconds.size() < log.real_mb.size()) log.seconds.push_back(std::strtod(sample.c_str(), nullptr));
  }
  return log;
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

}  // namespace runs
