#include "report/memory_log.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace capstan::report {

namespace fs = std::filesystem;

namespace {

// The number that a text begins with: "21658 MiB", "37 %". Nothing for "[N/A]".
std::optional<double> number_in(const std::string& text) {
  const auto cell = trim(text);
  char* end = nullptr;
  const double number = std::strtod(cell.c_str(), &end);
  if (end == cell.c_str()) return {};
  return number;
}

// Seconds of nvidia-smi's "2025/12/05 10:34:24.123", from any fixed beginning.
std::optional<double> time_in(const std::string& text) {
  int year = 0;
  int month = 0;
  int day = 0;
  int hour = 0;
  int minute = 0;
  double second = 0;
  if (std::sscanf(text.c_str(), " %d/%d/%d %d:%d:%lf", &year, &month, &day, &hour, &minute, &second) != 6) return {};
  // Days of the civil calendar, with years that begin in March: the leap day is a year's last one.
  const int years = month > 2 ? year : year - 1;
  const int months = (month + 9) % 12;
  const int days = 365 * years + years / 4 - years / 100 + years / 400 + (153 * months + 2) / 5 + day;
  return 86400.0 * days + 3600.0 * hour + 60.0 * minute + second;
}

// Where the columns of a file are.
struct Columns {
  std::size_t time = std::string::npos;
  std::size_t index = std::string::npos;
  std::size_t used = std::string::npos;
  std::size_t utilisation = std::string::npos;

  bool found() const { return time != std::string::npos && index != std::string::npos && used != std::string::npos; }
  std::size_t last() const { return std::max({time, index, used}); }
};

Columns columns_of(const std::string& head) {
  Columns columns;
  const auto names = split(head, ',');
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto name = trim(names[i]);
    if (name == "timestamp") columns.time = i;
    if (name == "index") columns.index = i;
    if (name.starts_with("memory.used")) columns.used = i;
    if (name.starts_with("utilization.gpu")) columns.utilisation = i;
  }
  return columns;
}

[[noreturn]] void fail_line(const fs::path& file, std::size_t line, const std::string& text, const char* wanted) {
  throw Error(cat("'", text.substr(0, 120), "' is no line of ", wanted), "take the line out, or the file away",
              cat(file.string(), ":", line));
}

bool add_gpu_line(const std::string& line, const Columns& columns, double& begin, GpuLog& log) {
  const auto cells = split(line, ',');
  if (cells.size() <= columns.last()) return false;
  const auto time = time_in(cells[columns.time]);
  const auto index = number_in(cells[columns.index]);
  const auto used = number_in(cells[columns.used]);
  if (!time || !index || !used) return false;
  if (begin < 0) begin = *time;
  GpuSample sample{*time - begin, *used, {}};
  if (columns.utilisation < cells.size()) sample.utilisation = number_in(cells[columns.utilisation]);
  log.gpus[static_cast<int>(*index)].push_back(sample);
  return true;
}

}  // namespace

Usage usage_of(const std::vector<double>& values) {
  CAPSTAN_ASSERT(!values.empty());
  Usage usage;
  usage.peak = *std::max_element(values.begin(), values.end());
  usage.average = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  std::map<double, std::size_t> counts;
  for (const double value : values) ++counts[value];
  std::size_t most = 0;
  for (const auto& [value, count] : counts) most = std::max(most, count);
  for (const auto& [value, count] : counts) {
    if (count == most) usage.modes.push_back(value);
  }
  return usage;
}

GpuLog read_gpu_log(const fs::path& file) {
  GpuLog log;
  log.name = file.stem().string();
  const auto lines = split(read_file(file), '\n');
  Columns columns;
  double begin = -1;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (trim(lines[i]).empty()) continue;
    if (const auto head = columns_of(lines[i]); head.found()) {
      columns = head;  // again, where a second nvidia-smi appended to the file
    } else if (!columns.found()) {
      throw Error(cat("'", lines[i].substr(0, 120), "' does not name the columns timestamp, index and memory.used"),
                  "write it with nvidia-smi --query-gpu=timestamp,index,name,memory.used,memory.total --format=csv",
                  cat(file.string(), ":", i + 1));
    } else if (!add_gpu_line(lines[i], columns, begin, log) && i + 1 < lines.size()) {
      fail_line(file, i + 1, lines[i], "nvidia-smi's");
    }
  }
  return log;
}

CpuLog read_cpu_log(const fs::path& file) {
  CpuLog log;
  log.name = file.stem().string();
  const auto lines = split(read_file(file), '\n');
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto line = trim(lines[i]);
    if (line.empty() || line.starts_with("#")) continue;
    // Elapsed time, CPU (%), Real (MB), Virtual (MB).
    double elapsed = 0;
    double percent = 0;
    double real = 0;
    if (std::sscanf(line.c_str(), "%lf %lf %lf", &elapsed, &percent, &real) == 3) {
      log.real_mb.push_back(real);
    } else if (i + 1 < lines.size()) {
      fail_line(file, i + 1, line, "psrecord's");
    }
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

}  // namespace capstan::report
