#include <capstan/base/text.h>

#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_names.h"
#include "checkpoint/commit_agree.h"

namespace capstan::checkpoint {
namespace {

namespace fs = std::filesystem;

// What rank 0 sees counts: another host may see a new folder later.
std::vector<fs::path> candidates(const fs::path& folder, comm::Group* group) {
  auto found = committed(folder);
  if (!group) return found;
  auto names = nlohmann::json::array();
  for (const auto& path : found) names.push_back(path.filename().string());
  std::vector<fs::path> out;
  const auto first = exchange_texts(*group, names.dump(), "checkpoints found").front();
  for (const auto& name : nlohmann::json::parse(first)) out.push_back(folder / name.get<std::string>());
  return out;
}

// One fault for a checkpoint that has several: the first, and how many more.
Diagnostic summary(const fs::path& path, const Diagnostics& faults) {
  auto fault = faults.list().front();
  fault.what = cat("skipped: ", fault.where == path.string() ? "" : fault.where + ": ", fault.what,
                   faults.size() == 1 ? "" : cat(" (and ", faults.size() - 1, " more)"));
  fault.where = path.string();
  return fault;
}

std::int64_t step_in(const fs::path& path) {
  const auto name = path.filename().string();
  const auto aside = name_before(name, ".replaced");
  return step_of(aside.empty() ? name : aside).value_or(0);
}

}  // namespace

Newest newest(const fs::path& folder, Depth depth, comm::Group* group) {
  Newest out;
  for (const auto& path : candidates(folder, group)) {
    Diagnostics faults;
    verify(path, depth, faults, group);
    if (faults.empty()) {
      out.path = path;
      out.step = step_in(path);
      return out;
    }
    out.skipped.push_back(summary(path, faults));
  }
  return out;
}

}  // namespace capstan::checkpoint
