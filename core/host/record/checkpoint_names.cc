#include "record/checkpoint_names.h"

#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/record/checkpoints.h>

#include <algorithm>
#include <array>
#include <cstdio>

namespace capstan::checkpoint {

namespace fs = std::filesystem;

std::optional<std::int64_t> step_of(const std::string& name) {
  constexpr std::string_view begin = "step-";
  const auto digits = name.starts_with(begin) ? name.substr(begin.size()) : "";
  return digits.size() <= 18 ? number_in<std::uint64_t>(digits) : std::nullopt;
}

fs::path replaced_of(const fs::path& path) {
  auto out = path;
  return out += ".replaced";
}

std::string name_before(const std::string& name, const std::string& ending) {
  return name.ends_with(ending) ? name.substr(0, name.size() - ending.size()) : "";
}

fs::path step_folder(const fs::path& folder, std::int64_t step) {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "step-%08lld", static_cast<long long>(step));
  return folder / name.data();
}

std::vector<fs::path> committed(const fs::path& folder) {
  std::vector<std::pair<std::int64_t, fs::path>> found;
  for (const auto& path : entries_if_there(folder)) {
    const auto name = path.filename().string();
    // A crash between two renames leaves a complete checkpoint under its ".replaced" name.
    const auto aside = name_before(name, ".replaced");
    const bool stands_alone = !aside.empty() && !is_there(folder / aside);
    const auto step = step_of(stands_alone ? aside : name);
    if (step && is_folder(path)) found.emplace_back(*step, path);
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<fs::path> out;
  for (auto& item : found) out.push_back(std::move(item.second));
  return out;
}

bool is_checkpoint(const fs::path& path) { return is_there(path / "manifest.json"); }

bool is_latest(const fs::path& path) { return path.filename() == "latest" && is_file(path); }

fs::path folder_at(const fs::path& path) {
  if (is_latest(path)) return path.parent_path();
  return is_folder(path / "checkpoints") ? path / "checkpoints" : path;
}

}  // namespace capstan::checkpoint
