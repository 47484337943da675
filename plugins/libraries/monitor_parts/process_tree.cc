#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan/monitor_parts/process_tree.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <sstream>
#include <string>

namespace capstan::monitor {
namespace {

struct ProcessStat {
  std::int64_t parent = 0;
  ProcessUse use;
};

// Fields of proc(5)'s stat: 4 is the parent, 14 and 15 are ticks, 23 bytes of address space, 24 resident pages.
std::optional<ProcessStat> stat_of(const std::filesystem::path& folder) {
  std::string text;
  try {
    text = read_file(folder / "stat");
  } catch (const std::exception&) {
    return {};  // it has ended meanwhile
  }
  const auto name_end = text.rfind(')');  // the name before may hold anything
  if (name_end == std::string::npos) return {};
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  ProcessStat process;
  fields >> skipped >> process.parent;
  for (int i = 5; i < 14; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  for (int i = 16; i < 23; ++i) fields >> skipped;
  std::int64_t pages = 0;
  fields >> process.use.addressed >> pages;
  if (!fields) return {};
  process.use.resident = pages * ::sysconf(_SC_PAGESIZE);
  process.use.processor_seconds = (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return process;
}

}  // namespace

ProcessUse process_tree_use(const std::set<std::int64_t>& roots, const std::filesystem::path& proc) {
  std::map<std::int64_t, ProcessStat> all;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(proc, error)) {
    const auto number = number_in<std::uint32_t>(entry.path().filename().string());
    if (!number) continue;
    if (const auto process = stat_of(entry.path())) all[*number] = *process;
  }
  const auto is_theirs = [&](std::int64_t process) {
    for (std::size_t steps = 0; steps <= all.size(); ++steps) {  // a number that came again could make a circle
      if (roots.contains(process)) return true;
      const auto found = all.find(process);
      if (found == all.end()) return false;
      process = found->second.parent;
    }
    return false;
  };
  ProcessUse sum;
  for (const auto& [number, process] : all) {
    if (!is_theirs(number)) continue;
    sum.resident += process.use.resident;
    sum.addressed += process.use.addressed;
    sum.processor_seconds += process.use.processor_seconds;
  }
  return sum;
}

}  // namespace capstan::monitor
