#include "train/run_folder.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/log.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <thread>

namespace capstan::train {

namespace {

constexpr const char* choose_dir = "set run.dir to a folder that you may write to";

Json evaluation_json(const monitor::EvalEnded& evaluation) {
  Json json{{"step", evaluation.step},
            {"epoch", evaluation.epoch_progress},
            {"split", evaluation.split},
            {"samples", evaluation.samples},
            {"runtime_s", evaluation.runtime_s}};
  if (evaluation.loss) json["loss"] = *evaluation.loss;
  for (const auto& [name, value] : evaluation.scores) json[name] = value;
  return json;
}

// What monitors say, under their own names: core's keep their meaning.
void add_monitors(Json& json, const monitor::Summary& summary) {
  for (const auto& [name, value] : summary.values) json.emplace(name, value);
  for (const auto& [name, text] : summary.texts) json.emplace(name, text);
}

// Does a line of metrics.jsonl belong to the first `steps_done` steps? Steps count from 0; evaluations and checkpoints
// say how many steps are done.
bool is_of(const Json& line, std::int64_t steps_done) {
  if (!line.is_object() || !line.contains("step") || !line.at("step").is_number_integer()) return false;
  const auto step = line.at("step").get<std::int64_t>();
  const bool is_step = !line.contains("split") && !line.contains("checkpoint");
  return is_step ? step < steps_done : step <= steps_done;
}

// Scores of answers to questions of one of these splits? They have no loss.
bool is_of_answers(const Json& line, std::int64_t steps_done, const std::vector<std::string>& splits) {
  if (!line.contains("split") || line.contains("loss") || line.at("step") != steps_done) return false;
  return std::find(splits.begin(), splits.end(), line.at("split")) != splits.end();
}

// "summary.json.tmp4711": write_file's and the checkpoints' name for a file until it is whole.
bool is_unfinished(const std::string& name) {
  constexpr std::string_view mark = ".tmp";
  const auto dot = name.rfind(mark);
  return dot != std::string::npos && dot + mark.size() < name.size() &&
         name.find_first_not_of("0123456789", dot + mark.size()) == std::string::npos;
}

Json checkpoints_json(const SaveTotals& totals) {
  Json json{{"saves", totals.saves},
            {"last", totals.last},
            {"bytes", totals.bytes},
            {"stall_s", totals.stall_s},
            {"most_stall_s", totals.most_stall_s},
            {"write_s", totals.write_s},
            {"bytes_per_second", totals.write_s > 0 ? static_cast<double>(totals.bytes) / totals.write_s : 0.0}};
  if (const auto& best = totals.best)
    json["best"] = {{"step", best->step}, {"value", best->value}, {"path", best->path.string()}};
  return json;
}

[[noreturn]] void refuse_folder(const std::filesystem::path& path, const std::error_code& error, std::string fix) {
  throw Error(cat("cannot make a folder for the run: ", meaning_of(error.value())),
              error.value() == ENAMETOOLONG ? "give a shorter run.name or run.dir" : std::move(fix), path.string());
}

std::filesystem::path with_logs(std::filesystem::path path) {
  std::error_code error;
  std::filesystem::create_directories(path / "logs", error);
  if (error) refuse_folder(path, error, choose_dir);
  return path;
}

}  // namespace

RunFolder::RunFolder(std::filesystem::path path, int rank) : path_(std::move(path)), rank_(rank) {
  if (rank_ == 0) open_metrics();
}

void RunFolder::open_metrics() { metrics_.open(path_ / "metrics.jsonl"); }

std::filesystem::path RunFolder::make_new(const std::filesystem::path& dir, const std::string& name, std::string fix) {
  std::error_code error;
  std::filesystem::path path = dir;
  std::filesystem::create_directories(path, error);
  for (int n = 1; !error; ++n) {
    path = dir / (n == 1 ? name : cat(name, "-", n));
    if (std::filesystem::create_directory(path, error)) return path;
  }
  refuse_folder(path, error, std::move(fix));
}

std::filesystem::path RunFolder::make(const std::string& dir, const std::string& name) {
  return with_logs(make_new(dir, name, choose_dir));
}

std::filesystem::path RunFolder::reuse(const std::string& dir, const std::string& name) {
  return with_logs(std::filesystem::path(dir) / name);
}

void RunFolder::resume_after(std::int64_t steps_done, const std::vector<std::string>& answers_again) {
  if (rank_ != 0) return;
  metrics_.close();
  const auto file = path_ / "metrics.jsonl";
  std::string kept;
  for (const auto& line : split(read_file(file), '\n')) {
    const auto json = try_parse_json(line);
    if (is_of(json, steps_done) && !is_of_answers(json, steps_done, answers_again)) kept += line + "\n";
  }
  write_file(file, kept);
  open_metrics();
}

void RunFolder::start_over() {
  const auto file = path_ / "metrics.jsonl";
  if (rank_ != 0 || std::filesystem::file_size(file) == 0) return;
  metrics_.close();
  auto aside = path_ / "metrics-1.jsonl";
  for (int n = 2; is_there(aside); ++n) aside = path_ / cat("metrics-", n, ".jsonl");
  std::error_code error;
  std::filesystem::rename(file, aside, error);
  if (error) throw FileError(file, "move aside", error.value());
  log::info(cat("the run starts from its beginning; what an earlier start told is now ", aside.string()));
  open_metrics();
}

void RunFolder::remove_unfinished(const std::filesystem::path& folder) {
  const auto list = [](const std::filesystem::path& place) -> std::vector<std::filesystem::path> {
    try {
      return entries_if_there(place);
    } catch (const FileError& error) {  // who needs what is in it says so
      log::debug(cat("looking for what was left half written: ", error.what()));
      return {};
    }
  };
  for (const auto& place : {folder, folder / "checkpoints"}) {
    for (const auto& path : list(place)) {
      std::error_code ignored;  // it does no harm
      const auto kind = std::filesystem::symlink_status(path, ignored).type();
      if (kind == std::filesystem::file_type::regular && is_unfinished(path.filename().string()))
        std::filesystem::remove(path, ignored);
    }
  }
}

std::filesystem::path RunFolder::log_file() const { return path_ / "logs" / cat("rank-", rank_, ".log"); }

void RunFolder::write_config(const std::vector<config::ResolvedTable>& tables) const {
  if (rank_ == 0) write_file(path_ / "config.toml", config::to_toml(tables));
}

monitor::Values RunFolder::step_ended(const monitor::StepEnded& step) {
  if (rank_ != 0) return {};
  Json json{{"step", step.step},
            {"steps", step.steps},
            {"epoch", step.epoch},
            {"loss", step.loss},
            {"lr", step.lr},
            {"grad_norm", step.grad_norm},
            {"samples", step.samples},
            {"tokens", step.tokens},
            {"padded_tokens", step.padded_tokens},
            {"target_tokens", step.target_tokens},
            {"step_time_s", step.step_time_s}};
  if (step.loss_scale) json["loss_scale"] = *step.loss_scale;
  if (step.skipped) json["skipped"] = true;
  if (step.auxiliary_loss) json["auxiliary_loss"] = *step.auxiliary_loss;
  for (const auto& [name, value] : step.values) json[name] = value;
  metrics_.add(json.dump());
  return {};
}

void RunFolder::eval_ended(const monitor::EvalEnded& evaluation) {
  if (rank_ == 0) metrics_.add(evaluation_json(evaluation).dump());
}

void RunFolder::checkpoint_saved(const monitor::CheckpointSaved& saved) {
  if (rank_ != 0) return;
  const Json json{{"step", saved.step},       {"checkpoint", saved.path}, {"bytes", saved.bytes},
                  {"stall_s", saved.stall_s}, {"write_s", saved.write_s}, {"bytes_per_second", saved.bytes_per_second}};
  metrics_.add(json.dump());
}

void RunFolder::predictions(const std::string& split, const std::vector<execution::Answer>& answers) {
  if (rank_ == 0) report(cat("predictions-", split, ".json"), execution::predictions_text(answers));
}

void RunFolder::report(const std::string& name, std::string text) {
  const auto file = path_ / name;
  try {
    write_file(file, text);
    unwritten_.erase(file);
  } catch (const FileError& error) {
    log::warning(cat(error.what(), "\n    it is held in memory, and written at the end of the run if it can be then"));
    unwritten_[file] = std::move(text);
  }
}

std::string RunFolder::finish(std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds between{100};
  if (rank_ != 0) return {};
  const auto until = std::chrono::steady_clock::now() + patience;
  auto missing = metrics_.finish(patience);
  for (;;) {
    std::string faults;
    for (auto item = unwritten_.begin(); item != unwritten_.end();) {
      try {
        write_file(item->first, item->second);
        item = unwritten_.erase(item);
      } catch (const FileError& error) {
        faults += cat(faults.empty() ? "" : "\n", error.what());
        ++item;
      }
    }
    if (faults.empty()) return missing;
    if (std::chrono::steady_clock::now() >= until) return missing.empty() ? faults : cat(missing, "\n", faults);
    std::this_thread::sleep_for(between);
  }
}

void RunFolder::write_summary(const monitor::RunStarted& start, const monitor::RunEnded& end,
                              const Statistics& statistics, const std::vector<PeakMemory>& memory,
                              const shard::HostUpdateTimes& host_updates, const std::optional<SaveTotals>& checkpoints,
                              const std::vector<execution::Answer>& answers) {
  if (rank_ != 0) return;
  Json json{{"name", start.name},
            {"capstan", version()},
            {"world_size", start.world_size},
            {"backend", start.backend},
            {"device", start.device},
            {"parameters", start.parameters},
            {"trainable_parameters", start.trainable_parameters},
            {"steps", end.steps},
            {"first_step", start.first_step},
            {"steps_per_epoch", start.steps_per_epoch},
            {"epochs", end.epochs},
            {"global_batch", start.global_batch},
            {"samples", end.samples},
            {"tokens", end.tokens},
            {"runtime_s", end.runtime_s},
            {"steps_runtime_s", end.train_runtime_s},
            {"first_loss", statistics.first_loss},
            {"last_loss", statistics.last_loss},
            {"train_loss", end.mean_loss},
            {"weights", end.weights}};
  for (const auto& [phase, seconds] : start.start_s) json["start_s"][phase] = seconds;
  for (const auto& peak : memory) {
    json["peak_memory_bytes"].push_back(
        {{"device_setup", peak.device_setup}, {"device", peak.device}, {"host", peak.host}});
  }
  if (host_updates.updates > 0) {
    const auto each = static_cast<double>(host_updates.updates);
    json["host_update"] = {{"parameters", host_updates.elements},
                           {"total_s", host_updates.total_s / each},
                           {"rule_s", host_updates.rule_s / each},
                           {"send_s", host_updates.send_s / each},
                           {"wait_s", host_updates.wait_s / each}};
  }
  if (!end.weights.empty()) json["weights_step"] = checkpoints ? checkpoints->weights_step : end.steps;
  if (!statistics.stopped_early.empty()) json["stopped_early"] = statistics.stopped_early;
  if (checkpoints) json["checkpoints"] = checkpoints_json(*checkpoints);
  add_monitors(json, end.summary);
  for (const auto& evaluation : statistics.evaluations) json["evaluations"].push_back(evaluation_json(evaluation));
  for (const auto& answer : answers) {
    json["answers"].push_back(
        {{"id", answer.id}, {"prompt", answer.prompt}, {"answer", answer.text}, {"references", answer.references}});
  }
  report("summary.json", json.dump(2) + "\n");
}

}  // namespace capstan::train
