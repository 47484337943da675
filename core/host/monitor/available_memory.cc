#include "monitor/available_memory.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

namespace capstan::monitor {
namespace {

namespace fs = std::filesystem;

std::optional<std::int64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  std::int64_t value = 0;
  if (in >> value) return value;
  return {};  // missing, or "max"
}

std::optional<std::int64_t> machine(const fs::path& root) {
  std::ifstream in(root / "proc/meminfo");
  std::string key;
  std::int64_t kilobytes = 0;
  std::string rest;
  while (in >> key >> kilobytes && std::getline(in, rest)) {
    if (key == "MemAvailable:") return kilobytes * 1024;
  }
  return {};
}

// The files of a control group, by the version of control groups.
struct GroupFiles {
  const char* hierarchy;
  const char* limit;
  const char* used;
  std::vector<std::string> cached;  // in memory.stat, with the groups inside
};

const GroupFiles version1{
    "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};
const GroupFiles version2{"", "memory.max", "memory.current", {"inactive_file", "active_file"}};

// The page cache of a group. The kernel counts it as used but frees it on demand: without this correction a job that
// has just read a checkpoint would look full.
std::int64_t cached_in(const fs::path& folder, const GroupFiles& files) {
  std::ifstream in(folder / "memory.stat");
  std::string key;
  std::int64_t value = 0;
  std::int64_t sum = 0;
  while (in >> key >> value) {
    if (std::find(files.cached.begin(), files.cached.end(), key) != files.cached.end()) sum += value;
  }
  return sum;
}

std::optional<std::int64_t> left_in(const fs::path& folder, const GroupFiles& files) {
  const auto most = number_in(folder / files.limit);
  const auto used = number_in(folder / files.used);
  if (!most || !used) return {};
  return *most - std::max<std::int64_t>(0, *used - cached_in(folder, files));
}

// The smaller of the known values.
std::optional<std::int64_t> lesser(std::optional<std::int64_t> one, std::optional<std::int64_t> other) {
  if (!one || !other) return one ? one : other;
  return std::min(*one, *other);
}

// The control group of this process and its ancestors: each may set a limit.
std::optional<std::int64_t> groups(const fs::path& root, const std::string& path, const GroupFiles& files) {
  std::optional<std::int64_t> least;
  const auto top = (root / "sys/fs/cgroup" / files.hierarchy).lexically_normal();
  auto folder = (top / path.substr(std::min<std::size_t>(1, path.size()))).lexically_normal();
  for (std::size_t depth = 0; depth < 32; ++depth) {
    least = lesser(least, left_in(folder, files));
    if (folder == top || !folder.has_relative_path()) break;
    folder = folder.parent_path();
  }
  return least;
}

}  // namespace

std::optional<std::int64_t> available_host_memory(const fs::path& root) {
  auto least = machine(root);
  std::ifstream in(root / "proc/self/cgroup");
  std::string line;
  while (std::getline(in, line)) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const auto controllers = line.substr(first + 1, second - first - 1);
    const auto path = line.substr(second + 1);
    if (controllers.empty()) least = lesser(least, groups(root, path, version2));
    if (controllers == "memory") least = lesser(least, groups(root, path, version1));
  }
  if (least) least = std::max<std::int64_t>(0, *least);
  return least;
}

}  // namespace capstan::monitor
