#include "resume/search.h"

#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <exception>
#include <functional>
#include <utility>

#include "comm/agree.h"
#include "record/checkpoint_names.h"

namespace capstan::resume {

namespace fs = std::filesystem;

namespace {

// Asks on every rank. What one of them meets all throw; else they continue with rank 0's answer: another host may see a
// new file later.
bool ask_together(comm::Group* group, const std::string& doing, const std::function<bool()>& asks) {
  if (!group) return asks();
  const auto answer = [&] { return std::string(asks() ? "yes" : "no"); };
  return comm::agree(*group, doing, "place of the checkpoints", answer).front() == "yes";
}

std::unique_ptr<checkpoint::Reader> open_together(const fs::path& path, comm::Group* group) {
  std::unique_ptr<checkpoint::Reader> reader;
  ask_together(group, cat("opening ", path.string()), [&] {
    reader = std::make_unique<checkpoint::Reader>(path);
    return true;
  });
  return reader;
}

job::Resume newest_in(const fs::path& folder, checkpoint::Depth depth, comm::Group* group) {
  job::Resume resume;
  auto found = checkpoint::newest(folder, depth, group);
  resume.skipped = std::move(found.skipped);
  resume.newer = std::move(found.damaged);
  if (found.path) resume.reader = open_together(*found.path, group);
  return resume;
}

// Has the run in this folder told of a checkpoint that it saved?
bool has_saved(const fs::path& run_folder) {
  const auto metrics = run_folder / "metrics.jsonl";
  return is_there(metrics) && read_file(metrics).find("\"checkpoint\":") != std::string::npos;
}

// A folder of checkpoints that was there and is gone or empty, with a disk that is not mounted or by a slip, is not a
// run that has none yet.
void refuse_vanished(const fs::path& run_folder) {
  const auto folder = job::checkpoint_folder(run_folder);
  const bool is_gone = !is_there(folder);
  if (!is_gone && !entries_of(folder).empty()) return;
  std::error_code no_link;
  const auto target = fs::read_symlink(folder, no_link);
  const char* again = "to train from the beginning, take another run.name, or move metrics.jsonl away";
  if (is_gone && !no_link) {
    throw Error(cat("it is a link to ", target.string(), ", which is not there"),
                "mount what it leads to, or repair the link; to train from the beginning, remove it", folder.string());
  }
  if (!has_saved(run_folder)) return;
  throw Error(cat("this run has saved checkpoints here, as its metrics.jsonl says, but the folder is ",
                  is_gone ? "gone" : "empty"),
              cat("put them back, or mount their disk; ", again), folder.string());
}

job::Resume own(const job::Job& job, checkpoint::Depth depth, comm::Group* group) {
  const auto run_folder = job::own_run_folder(job);
  ask_together(group, cat("looking for checkpoints in ", run_folder.string()), [&] {
    if (!group || group->rank() == 0) refuse_vanished(run_folder);
    return true;
  });
  return newest_in(job::checkpoint_folder(run_folder), depth, group);
}

// What a person who wrote this path may have meant, and what can be written.
std::string fix_of(const fs::path& path) {
  const auto keyword = nearest_name(lower(path.filename().string()), {"auto", "none"});
  std::vector<std::string> beside;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(path.parent_path(), none)) {
    if (entry.is_directory(none)) beside.push_back(entry.path().filename().string());
  }
  const auto neighbour = fs::exists(path, none) ? "" : nearest_name(path.filename().string(), beside);
  auto meant = keyword;
  if (meant.empty() && !neighbour.empty()) meant = (path.parent_path() / neighbour).string();
  return cat(
      meant.empty() ? "" : cat("did you mean '", meant, "'? "),
      "write auto to continue in this run's own folder, or name a run's folder, its checkpoints, or one of them");
}

job::Resume newest_named(const job::Job& job, const fs::path& path, checkpoint::Depth depth, comm::Group* group) {
  // `latest` too means the newest that is valid: what it says may change meanwhile, or be damaged.
  fs::path folder;
  const auto looking = cat("looking for checkpoints in ", path.string());
  ask_together(group, looking, [&] {
    folder = checkpoint::folder_at(path);
    return true;
  });
  auto resume = newest_in(folder, depth, group);
  resume.newer.clear();  // they are another run's
  if (resume.reader) return resume;
  const auto where = job.config.checkpoint.where(&setup::CheckpointOptions::resume);
  auto faults = resume.skipped;
  if (!ask_together(group, looking, [&] { return is_there(path); })) {
    faults = {{where, cat("checkpoint.resume: there is no ", path.string()), fix_of(path)}};
  } else if (faults.empty()) {
    faults = {{where, cat("checkpoint.resume: ", path.string(), " has no valid checkpoint"), fix_of(path)}};
  } else {
    faults.insert(faults.begin(), {where, cat("checkpoint.resume: ", path.string(), " has no valid checkpoint"),
                                   "name another run, or a checkpoint"});
  }
  throw Error(std::move(faults));
}

job::Resume named(const job::Job& job, checkpoint::Depth depth, comm::Group* group) {
  const fs::path path = job.config.checkpoint->resume;
  // A checkpoint's folder without its manifest is a damaged one, and not a place to search.
  const bool is_one = ask_together(group, cat("looking for the checkpoint ", path.string()), [&] {
    return checkpoint::is_checkpoint(path) || checkpoint::step_of(path.filename().string()).has_value();
  });
  if (!is_one) return newest_named(job, path, depth, group);
  Diagnostics faults;
  const bool is_readable = checkpoint::verify(path, depth, faults, group);
  if (!faults.empty()) {
    auto list = faults.list();
    list.insert(
        list.begin(),
        {job.config.checkpoint.where(&setup::CheckpointOptions::resume),
         cat("checkpoint.resume: ", path.string(), is_readable ? " is not valid" : " cannot be read; it may be whole"),
         is_readable ? "name another one, or the folder that it lies in: its newest valid one is taken"
                     : "repair what follows, and start again"});
    throw Error(std::move(list));
  }
  job::Resume resume;
  resume.reader = open_together(path, group);
  return resume;
}

}  // namespace

job::Resume find_resume(const job::Job& job, checkpoint::Depth depth, comm::Group* group) {
  const auto& from = job.config.checkpoint->resume;
  if (from == "none") return {};
  if (from == "auto") return own(job, depth, group);
  return named(job, depth, group);
}

}  // namespace capstan::resume
