#include "job/resume.h"

#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cctype>
#include <exception>
#include <functional>
#include <set>
#include <utility>

#include "comm/agree.h"
#include "job/adapter_state.h"
#include "job/assemble.h"
#include "job/changes.h"
#include "record/checkpoint_names.h"

namespace capstan::job {

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

Resume newest_in(const fs::path& folder, checkpoint::Depth depth, comm::Group* group) {
  Resume resume;
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
  const auto folder = checkpoint_folder(run_folder);
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

Resume own(const Job& job, checkpoint::Depth depth, comm::Group* group) {
  const auto run_folder = own_run_folder(job);
  ask_together(group, cat("looking for checkpoints in ", run_folder.string()), [&] {
    if (!group || group->rank() == 0) refuse_vanished(run_folder);
    return true;
  });
  return newest_in(checkpoint_folder(run_folder), depth, group);
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

Resume newest_named(const Job& job, const fs::path& path, checkpoint::Depth depth, comm::Group* group) {
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

Resume named(const Job& job, checkpoint::Depth depth, comm::Group* group) {
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
  Resume resume;
  resume.reader = open_together(path, group);
  return resume;
}

// A few names, and how many there are besides.
std::string names_text(const std::vector<std::string>& names) {
  constexpr std::size_t most = 6;
  std::vector<std::string> first;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i) first.push_back(cat("'", names[i], "'"));
  return join(first) + (names.size() > most ? cat(" and ", names.size() - most, " more") : "");
}

// The names of records after "optimizer/<state>/".
std::set<std::string> records_with_state(const checkpoint::Reader& reader) {
  const std::string kind = "optimizer/";
  std::set<std::string> names;
  for (const auto& tensor : reader.tensors(kind)) {
    const auto slash = tensor.find('/', kind.size());
    if (slash != std::string::npos) names.insert(tensor.substr(slash + 1));
  }
  return names;
}

void check_records(const Job& job, const checkpoint::Reader& reader, const std::vector<nn::Unit*>& units,
                   Diagnostics& diagnostics) {
  const auto where = reader.path().string();
  const auto with_state = records_with_state(reader);
  const auto of_other_rank = check_adapters(reader, units, diagnostics);
  std::vector<std::string> missing;
  std::vector<std::string> stateless;
  std::set<std::string> known;
  for (const auto* record : records_of(units)) {
    const auto tensor = saved_name("model", record->name, 0);
    known.insert(tensor);
    if (!reader.has(tensor)) {
      if (record->trainable) missing.push_back(record->name);
      continue;
    }
    if (reader.shape(tensor) != record->shape && !of_other_rank.contains(record->name)) {
      diagnostics.add(where,
                      cat("record '", record->name, "' has shape ", layout::shape_text(reader.shape(tensor)),
                          ", the model's is ", layout::shape_text(record->shape)),
                      "continue with the model that was saved");
    }
    const bool keeps_state = record->trainable && !job.model->optimizer->of(*record).rule->states(*record).empty();
    if (keeps_state && !with_state.contains(record->name)) stateless.push_back(record->name);
  }
  std::vector<std::string> foreign;
  for (const auto& tensor : reader.tensors("model/")) {
    if (!known.contains(tensor)) foreign.push_back(tensor.substr(std::string("model/").size()));
  }
  const char* fix = "continue with the model that was saved";
  if (!missing.empty()) diagnostics.add(where, cat("it has no record ", names_text(missing)), fix);
  if (!foreign.empty()) {
    diagnostics.add(where, cat("it has the record ", names_text(foreign), ", which the model has not"), fix);
  }
  // An optimizer may keep nothing at all.
  if (!with_state.empty() && !stateless.empty()) {
    diagnostics.add(where, cat("it has no optimizer state of ", names_text(stateless)),
                    "train the same parameters as the run that was saved");
  }
}

Json cursor_of(const Job& job, std::int64_t steps_done) {
  CAPSTAN_ASSERT(job.config.trains());  // another job has no step plan
  const auto& plan = job.samples.plan;
  const auto epoch = plan.epoch_of(steps_done);
  return {{"epoch", epoch},
          {"samples_in_epoch", plan.consumed(steps_done) - plan.consumed(epoch * plan.steps_per_epoch)},
          {"consumed_samples", plan.consumed(steps_done)},
          {"samples", plan.order ? job.samples.train->size() : plan.samples},
          {"global_batch", plan.global_batch},
          {"seed", plan.seed},
          {"shuffle", plan.shuffle},
          {"drop_last", job.config.train->drop_last}};
}

// The same samples follow only where all of this is as it was.
void check_cursor(const Job& job, const checkpoint::Reader& reader, Diagnostics& diagnostics) {
  const auto saved = Json::parse(reader.section("cursor"));  // the manifest was JSON
  const auto mine = cursor_of(job, reader.meta().step);
  const std::vector<std::pair<const char*, std::string>> compared{
      {"samples", job.plugins.data->where},
      {"global_batch", job.config.train.where(&setup::TrainOptions::global_batch)},
      {"seed", job.config.run.where(&setup::RunOptions::seed)},
      {"shuffle", job.config.train.where(&setup::TrainOptions::shuffle)},
      {"drop_last", job.config.train.where(&setup::TrainOptions::drop_last)}};
  for (const auto& [key, where] : compared) {
    const auto theirs = saved.contains(key) ? saved.at(key) : Json();
    if (theirs == mine.at(key)) continue;
    const std::string what = key == std::string("samples") ? "the number of training samples" : key;
    diagnostics.add(where,
                    cat(what, " is ", mine.at(key).dump(), ", but ", theirs.dump(), " in the checkpoint ",
                        reader.path().string(), ": other batches would follow than in the run that was saved"),
                    cat("set it to ", theirs.dump(), ", or start a new run"));
  }
  if (reader.meta().step > job.samples.plan.steps) {
    diagnostics.add(job.config.train.where(job.config.train->max_steps ? &setup::TrainOptions::max_steps
                                                                       : &setup::TrainOptions::epochs),
                    cat("the run has ", job.samples.plan.steps, " steps, and the checkpoint ", reader.path().string(),
                        " is after step ", reader.meta().step),
                    "make the run longer, or continue from an earlier checkpoint");
  }
}

}  // namespace

fs::path checkpoint_folder(const fs::path& run_folder) { return run_folder / "checkpoints"; }

fs::path own_run_folder(const Job& job) { return fs::path(job.config.run->dir) / job.config.name; }

Resume find_resume(const Job& job, checkpoint::Depth depth, comm::Group* group) {
  const auto& from = job.config.checkpoint->resume;
  if (from == "none") return {};
  if (from == "auto") return own(job, depth, group);
  return named(job, depth, group);
}

void check_resume(const Job& job, const checkpoint::Reader& reader, const std::vector<nn::Unit*>& units,
                  Diagnostics& diagnostics) {
  check_records(job, reader, units, diagnostics);
  for (const auto& change : changes_since(job, reader)) {
    if (!is_accepted(*job.config.checkpoint, change.name)) diagnostics.add(change.refusal);
  }
  if (reader.has_section("cursor")) return check_cursor(job, reader, diagnostics);
  diagnostics.add(reader.path().string(), "it holds weights without the optimizer's state",
                  "a run continues from a checkpoint; to start from weights, set model.path to a model's folder");
}

bool judge_resume(const Job& job, Diagnostics& diagnostics) {
  const auto resume = find_resume(job, checkpoint::Depth::structure);
  check_accepted(job, resume.reader.get(), diagnostics);
  if (!resume.reader) return false;
  check_resume(job, *resume.reader, job::pointers(job.model->units), diagnostics);
  return true;
}

std::string cursor_section(const Job& job, std::int64_t steps_done) { return cursor_of(job, steps_done).dump(); }

std::string saved_name(const std::string& kind, const std::string& record, int copy) {
  return (copy > 0 ? cat("copies/", copy, "/") : "") + cat(kind, "/", record);
}

}  // namespace capstan::job
