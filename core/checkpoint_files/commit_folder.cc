#include "checkpoint/commit_folder.h"

#include <capstan/base/log.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "checkpoint/durable_file.h"
#include "record/checkpoint_names.h"

namespace capstan::checkpoint {
namespace {

namespace fs = std::filesystem;

void point(const AtPoint& at_point, CommitPoint point) {
  if (at_point) at_point(static_cast<int>(point));
}

void move_folder(const fs::path& from, const fs::path& to) {
  if (std::rename(from.c_str(), to.c_str()) == 0) return;
  const int reason = errno;
  throw_file_error(to, cat("rename ", from.string(), " to").c_str(), reason);
}

fs::path parent_of(const fs::path& path) { return fs::absolute(path).parent_path(); }

// Logs instead of throwing: leftovers do no harm.
template <class Work>
void try_to(const char* what, const fs::path& path, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    log::warning(cat("cannot ", what, ": ", error.what()));
  } catch (const fs::filesystem_error& error) {
    log::warning(cat("cannot ", what, " ", path.string(), ": ", error.code().message()));
  }
}

void sweep_one(const fs::path& path, const std::string& target) {
  const auto name = path.filename().string();
  const auto is_ours = [&](const std::string& begin) { return begin == target || step_of(begin); };
  const auto aside = name_before(name, ".replaced");
  if (!aside.empty() && is_ours(aside)) {
    const auto owner = path.parent_path() / aside;
    if (is_there(owner)) {
      fs::remove_all(path);
    } else {
      move_folder(path, owner);
    }
    return;
  }
  const auto dot = name.find(".tmp-");
  if (dot != std::string::npos && is_ours(name.substr(0, dot))) fs::remove_all(path);
}

// A committed checkpoint is renamed first, so that a half-removed one is never taken for a complete one.
void remove_committed(const fs::path& path, const AtPoint& at_point) {
  const auto marked = temporary_of(path, "removed");
  move_folder(path, marked);
  sync_folder(parent_of(path));
  point(at_point, CommitPoint::retention);
  fs::remove_all(marked);
}

}  // namespace

fs::path temporary_of(const fs::path& target, const std::string& attempt) {
  auto out = target;
  return out += ".tmp-" + attempt;
}

void sweep(const fs::path& target) {
  std::vector<fs::path> entries;
  try_to("look for what an earlier save left", target, [&] { entries = entries_if_there(parent_of(target)); });
  for (const auto& path : entries) {
    try_to("remove what an earlier save left", path, [&] { sweep_one(path, target.filename().string()); });
  }
}

void make_empty(const fs::path& folder) {
  try {
    fs::remove_all(folder);
    fs::create_directories(folder);
  } catch (const fs::filesystem_error& error) {
    throw_file_error(folder, "make", error.code().value());
  }
  // With the first checkpoint, the parent folder is new too.
  sync_folder(parent_of(folder));
  sync_folder(parent_of(parent_of(folder)));
}

void check_space(const fs::path& folder, std::int64_t bytes) {
  const auto left = free_bytes(folder);
  if (left < 0 || left >= bytes) return;
  throw DiskFull(cat("its file system has ", bytes_text(static_cast<double>(left)), " free"),
                 "free some space there, or write to another file system", folder.string());
}

void rename_into_place(const fs::path& temporary, const fs::path& target, const AtPoint& at_point) {
  // A folder cannot be renamed onto one that holds files: the old one is renamed first.
  const auto aside = replaced_of(target);
  const bool replaces = is_there(target);
  if (replaces) {
    move_folder(target, aside);
    point(at_point, CommitPoint::aside);
  }
  move_folder(temporary, target);
  point(at_point, CommitPoint::renamed);
  sync_folder(parent_of(target));
  if (replaces) try_to("remove", aside, [&] { fs::remove_all(aside); });
}

void apply_retention(const fs::path& newest, const Keep& keep, const AtPoint& at_point) {
  if (keep.last == 0) return;
  std::vector<Checkpoint> all;
  try_to("look for old checkpoints", newest, [&] { all = whole_ones(parent_of(newest)); });
  auto best = best_by(keep.best, all);
  if (!best && !keep.best.metric.empty()) best = best_kept(all);
  for (auto i = static_cast<std::size_t>(keep.last); i < all.size(); ++i) {
    const auto& path = all[i].path();
    if ((best && path == best->path) || path.filename() == newest.filename()) continue;
    try_to("remove an old checkpoint", path, [&] { remove_committed(path, at_point); });
  }
}

}  // namespace capstan::checkpoint
