#include <capstan/base/host_memory.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace capstan {
namespace {

std::optional<std::int64_t> number_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::int64_t value = 0;
  if (in >> value) return value;
  return {};  // missing, or "max"
}

std::optional<std::int64_t> machine(const std::filesystem::path& root) {
  std::ifstream in(root / "proc/meminfo");
  std::string key;
  std::int64_t kilobytes = 0;
  std::string rest;
  while (in >> key >> kilobytes && std::getline(in, rest)) {
    if (key == "MemAvailable:") return kilobytes * 1024;
  }
  return {};
}

// The control group of this process and those around it: each may limit.
std::optional<std::int64_t> groups(const std::filesystem::path& root, const std::string& hierarchy,
                                   const std::string& path, const char* limit, const char* used) {
  std::optional<std::int64_t> least;
  auto folder =
      (root / "sys/fs/cgroup" / hierarchy / path.substr(std::min<std::size_t>(1, path.size()))).lexically_normal();
  const auto top = (root / "sys/fs/cgroup" / hierarchy).lexically_normal();
  for (std::size_t depth = 0; depth < 32; ++depth) {
    const auto most = number_in(folder / limit);
    const auto now = number_in(folder / used);
    if (most && now) least = std::min(least.value_or(*most - *now), *most - *now);
    if (folder == top || !folder.has_relative_path()) break;
    folder = folder.parent_path();
  }
  return least;
}

}  // namespace

std::int64_t available_host_memory(const std::filesystem::path& root) {
  auto least = machine(root);
  std::ifstream in(root / "proc/self/cgroup");
  std::string line;
  while (std::getline(in, line)) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const auto controllers = line.substr(first + 1, second - first - 1);
    const auto path = line.substr(second + 1);
    std::optional<std::int64_t> left;
    if (controllers.empty()) left = groups(root, "", path, "memory.max", "memory.current");
    if (controllers == "memory") left = groups(root, "memory", path, "memory.limit_in_bytes", "memory.usage_in_bytes");
    if (left) least = std::min(least.value_or(*left), *left);
  }
  return std::max<std::int64_t>(0, least.value_or(0));
}

}  // namespace capstan
