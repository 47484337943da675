#include "runs/memory_use.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <sstream>

#include "runs/numbers.h"

namespace runs {

using namespace capstan;

namespace {

// Sizes in MiB, up to an exabyte. Larger or negative ones, and what is no number, come from a damaged file.
bool is_size(double mib) {
  constexpr double most = 1e12;
  return mib >= 0 && mib <= most;
}

// A cell's number, with or without its unit: "16273 MiB".
std::optional<double> number_in(const std::string& cell) {
  double number = 0;
  const auto text = trim(cell);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number)) return {};
  const auto rest = trim(std::string(end, text.data() + text.size()));
  if (!rest.empty() && rest != "MiB" && rest != "%") return {};
  return number;
}

// Without a header: timestamp, index, and a name or the utilisation.
struct Columns {
  std::size_t time = 0;
  std::size_t index = 1;
  std::size_t utilisation = 2;
  std::size_t used = 3;
};

// Where nvidia-smi's header says that they are; nothing if it has none of those that are needed.
std::optional<Columns> columns_of(const std::vector<std::string>& cells) {
  const auto place = [&](const std::string& name) {
    return static_cast<std::size_t>(
        std::find_if(cells.begin(), cells.end(), [&](const auto& cell) { return trim(cell).starts_with(name); }) -
        cells.begin());
  };
  const Columns found{place("timestamp"), place("index"), place("utilization.gpu"), place("memory.used")};
  if (found.index == cells.size() || found.used == cells.size()) return {};
  return found;
}

// Seconds of "2025/12/05 10:34:24.123", counted from any fixed beginning.
std::optional<double> time_in(const std::string& text) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0;
  double second = 0;
  if (std::sscanf(text.c_str(), " %d/%d/%d %d:%d:%lf", &year, &month, &day, &hour, &minute, &second) != 6) return {};
  if (!std::isfinite(second)) return {};
  using namespace std::chrono;
  const auto days = sys_days(std::chrono::year(year) / month / day).time_since_epoch().count();
  return 86400.0 * static_cast<double>(days) + 3600.0 * hour + 60.0 * minute + second;
}

struct GpuLine {
  int index = 0;
  std::optional<double> time;
  GpuMemorySample sample;
};

// Nothing: it is no line of nvidia-smi's.
std::optional<GpuLine> gpu_line(const std::vector<std::string>& cells, const Columns& columns) {
  if (cells.size() <= std::max(columns.index, columns.used)) return {};
  const auto index = number_in(cells[columns.index]);
  const auto used = number_in(cells[columns.used]);
  constexpr double most_gpus = 4096;
  if (!index || !used || *index < 0 || *index > most_gpus || !is_size(*used)) return {};
  GpuLine line{static_cast<int>(*index), {}, {0, *used, {}}};
  if (columns.time < cells.size()) line.time = time_in(cells[columns.time]);
  if (columns.utilisation < cells.size()) line.sample.utilisation = number_in(cells[columns.utilisation]);
  return line;
}

[[noreturn]] void bad_line(const std::string& file, std::size_t number, const std::string& line, const char* expected) {
  throw Error(cat("'", line, "' is no line of a memory log"), expected, cat(file, ":", number));
}

// Lines with their numbers; one that has no end was cut off and is left out if `whole` says that it must have one.
struct Lines {
  explicit Lines(const std::string& text) : all(split(text, '\n')), ends(!text.empty() && text.back() == '\n') {}
  bool cut_off(std::size_t i) const { return !ends && i + 1 == all.size(); }
  std::vector<std::string> all;
  bool ends;
};

}  // namespace

MemoryUse memory_use(const std::vector<double>& samples) {
  CAPSTAN_ASSERT(!samples.empty());
  MemoryUse use;
  std::map<std::int64_t, std::size_t> times;
  for (const double sample : samples) ++times[std::llround(sample)];
  std::size_t most = 0;
  for (const auto& [number, count] : times) most = std::max(most, count);
  for (const auto& [number, count] : times) {
    if (count == most) use.modes.push_back(number);
  }
  use.mode_share = static_cast<double>(most) / static_cast<double>(samples.size());
  use.peak = *std::max_element(samples.begin(), samples.end());
  use.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
  return use;
}

MemoryUse memory_use(const std::vector<GpuMemorySample>& samples) {
  std::vector<double> used;
  for (const auto& sample : samples) used.push_back(sample.used_mib);
  return memory_use(used);
}

std::map<int, std::vector<GpuMemorySample>> read_gpu_memory_log(const std::string& text, const std::string& file) {
  constexpr auto expected =
      "give a log of nvidia-smi --query-gpu=timestamp,index,name,memory.used,memory.total --format=csv";
  std::map<int, std::vector<GpuMemorySample>> samples;
  const Lines lines(text);
  Columns columns;
  std::optional<double> begin;
  for (std::size_t i = 0; i < lines.all.size(); ++i) {
    const auto line = trim(lines.all[i]);
    if (line.empty() || lines.cut_off(i)) continue;
    const auto cells = split(line, ',');
    if (const auto header = columns_of(cells)) {  // there is another one where a log was continued
      columns = *header;
      continue;
    }
    auto found = gpu_line(cells, columns);
    if (!found) bad_line(file, i + 1, line, expected);
    if (!begin) begin = found->time;
    if (found->time) found->sample.seconds = *found->time - *begin;
    samples[found->index].push_back(found->sample);
  }
  return samples;
}

bool is_cpu_memory_log(const std::string& text) {
  return text.starts_with("# Elapsed time") || text.starts_with("#  ") || text.starts_with("elapsed_time,");
}

CpuMemory read_cpu_memory_log(const std::string& text, const std::string& file) {
  constexpr auto expected = "give a log of psrecord PID --include-children --interval 5 --log FILE";
  CpuMemory memory;
  const Lines lines(text);
  const bool csv = text.starts_with("elapsed_time,");
  for (std::size_t i = 0; i < lines.all.size(); ++i) {
    const auto line = trim(lines.all[i]);
    if (line.empty() || line[0] == '#' || line.starts_with("elapsed_time,") || lines.cut_off(i)) continue;
    std::optional<double> real;
    if (csv) {
      const auto cells = split(line, ',');  // elapsed_time, nproc, cpu, mem_real, mem_virtual
      if (cells.size() >= 5) real = number_in(cells[3]);
    } else {
      std::istringstream cells(line);
      double elapsed = 0, processor = 0, resident = 0;
      if (cells >> elapsed >> processor >> resident) real = resident;
    }
    if (!real || !is_size(*real)) bad_line(file, i + 1, line, expected);
    memory.seconds.push_back(std::strtod(line.c_str(), nullptr));
    memory.real_mb.push_back(*real);
  }
  return memory;
}

GpuLog read_gpu_log(const std::filesystem::path& file) {
  return {file.stem().string(), read_gpu_memory_log(read_file(file), file.string())};
}

CpuLog read_cpu_log(const std::filesystem::path& file) {
  return {read_cpu_memory_log(read_file(file), file.string()), file.stem().string()};
}

std::string modes_text(const MemoryUse& use) {
  std::vector<std::string> modes;
  for (const auto mode : use.modes) modes.push_back(std::to_string(mode));
  return join(modes);
}

std::string mode_text(const MemoryUse& use) {
  return cat(use.modes.front(), " (", fixed(100 * use.mode_share, 0), " %)");
}

std::string gpu_memory_line(int gpu, const MemoryUse& use) {
  return cat("[gpu_memory_log - GPU ", gpu, "] Peak = ", std::llround(use.peak), " MiB, Avg = ", fixed(use.mean, 2),
             " MiB, Mode = ", modes_text(use), " MiB");
}

std::string cpu_memory_lines(const MemoryUse& use) {
  return cat("   Peak =    ", std::llround(use.peak), " MB\n   Average = ", fixed(use.mean, 2),
             " MB\n   Mode =    ", modes_text(use), " MB");
}

}  // namespace runs
