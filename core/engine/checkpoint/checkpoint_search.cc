#include <capstan/base/json.h>
#include <capstan/base/text.h>

#include "checkpoint/checkpoint.h"
#include "comm/agree.h"
#include "record/checkpoint_names.h"

namespace capstan::checkpoint {
namespace {

namespace fs = std::filesystem;

// Rank 0's view decides: another host may see a new folder later.
std::vector<fs::path> candidates(const fs::path& folder, comm::Group* group) {
  if (!group) return committed(folder);
  const auto look = [&] {
    auto names = Json::array();
    if (group->rank() == 0) {
      for (const auto& path : committed(folder)) names.push_back(path.filename().string());
    }
    return names.dump();
  };
  std::vector<fs::path> out;
  const auto first =
      comm::agree(*group, cat("looking for checkpoints in ", folder.string()), "checkpoints found", look).front();
  for (const auto& name : Json::parse(first)) out.push_back(folder / name.get<std::string>());
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

// A checkpoint that cannot be read may still be valid.
[[noreturn]] void refuse(const fs::path& path, const Diagnostics& faults) {
  auto list = faults.list();
  list.insert(list.begin(),
              {path.string(),
               "this checkpoint cannot be read. It may be whole, so none that is older takes its place, and nothing "
               "was changed",
               "repair what follows and start again; or name another checkpoint in checkpoint.resume"});
  throw Error(std::move(list));
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
    if (!verify(path, depth, faults, group)) refuse(path, faults);
    if (faults.empty()) {
      out.path = path;
      out.step = step_in(path);
      return out;
    }
    out.skipped.push_back(summary(path, faults));
    out.damaged.push_back(path);
  }
  return out;
}

}  // namespace capstan::checkpoint
