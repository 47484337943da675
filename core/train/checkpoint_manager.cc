#include "train/checkpoint_manager.h"

#include <capstan/base/log.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

namespace capstan::train {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

// A run may continue with another schedule; nobody should do so without knowing.
std::vector<std::string> schedule_changes(const std::string& text, const std::string& now) {
  std::vector<std::string> changes;
  const auto saved = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto mine = Json::parse(now);
  for (const auto& [key, value] : mine.items()) {
    const auto before = saved.is_object() && saved.contains(key) ? saved.at(key) : Json();
    if (before != value) changes.push_back(cat(key, " was ", before.dump(), " and is ", value.dump()));
  }
  return changes;
}

// The numbers of an evaluation by the names that checkpoint.metric knows: "eval_loss".
std::map<std::string, double> metrics_of(const std::optional<monitor::EvalEnded>& evaluation) {
  std::map<std::string, double> metrics;
  if (!evaluation) return metrics;
  if (evaluation->loss) metrics["eval_loss"] = *evaluation->loss;
  for (const auto& [name, value] : evaluation->scores) metrics["eval_" + name] = value;
  return metrics;
}

double metric(const setup::CheckpointOptions& options, const monitor::EvalEnded& evaluation) {
  const auto metrics = metrics_of(evaluation);
  const auto found = metrics.find(options.metric);
  if (found != metrics.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, value] : metrics) names.push_back(name);
  throw Error(cat("checkpoint.metric is '", options.metric, "', which the evaluations do not give"),
              suggestion(options.metric, names));
}

std::shared_ptr<comm::Group> everyone(comm::Communicator& communicator) {
  std::vector<int> ranks(static_cast<std::size_t>(communicator.world().size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return communicator.group("checkpoints", ranks, c10::Device(c10::DeviceType::CPU));
}

checkpoint::WriterOptions writer_options(const SavedRun& run, const fs::path& folder, const SaveSetting& setting) {
  const auto& options = run.options;
  checkpoint::WriterOptions writer;
  writer.folder = folder;
  writer.attempt = setting.attempt;
  writer.async = options.asynchronous;
  writer.pinned = run.pinned;
  writer.keep.last = options.keep;
  if (options.keep_best) writer.keep.best = options.metric;
  writer.keep.lowest_is_best = options.mode == "min";
  writer.at_point = setting.at_point;
  return writer;
}

constexpr const char* best_section = "best";
constexpr const char* schedule_section = "schedule";

}  // namespace

checkpoint::Meta meta_of(const SavedRun& run, std::int64_t steps_done) {
  auto meta = run.meta;
  meta.step = steps_done;
  return meta;
}

std::map<std::string, std::string> sections_of(const SavedRun& run, const Updates& updates,
                                               const observe::Statistics& statistics, std::int64_t steps_done) {
  auto sections = run.sections;
  sections["updates"] = updates.save();
  sections["cursor"] = run.cursor(steps_done);
  sections["run"] = statistics.save();
  return sections;
}

observe::Statistics resume_from(checkpoint::Reader& reader, const SavedRun& run, Updates& updates) {
  auto words = run.restore(reader);
  updates.restore(reader.section("updates"));
  auto changes = schedule_changes(reader.section(schedule_section), run.sections.at(schedule_section));
  if (!changes.empty())
    words.push_back("the learning rate follows another schedule than the one that was saved: " + join(changes));
  if (reader.meta().mesh != run.meta.mesh) {
    log::info(cat("it was saved on ", reader.meta().mesh, "; the same global batches follow on ", run.meta.mesh,
                  ", with sums in another order"));
  }
  for (const auto& text : words) {
    if (run.rank == 0) log::warning(cat("resuming from ", reader.path().string(), ": ", text));
  }
  return observe::Statistics::restore(reader.section("run"));
}

CheckpointManager::CheckpointManager(SavedRun run, const Updates& updates, comm::Communicator& communicator,
                                     observe::Observers& observers, const SaveSetting& setting)
    : run_(std::move(run)), updates_(updates), observers_(observers), attempt_(setting.attempt) {
  if (!run_.options.saves()) return;
  const auto folder = session::checkpoint_folder(run_.folder);
  writer_ = std::make_unique<checkpoint::Writer>(writer_options(run_, folder, setting), everyone(communicator));
  if (!setting.resume || !setting.resume->reader) return;
  const auto& reader = *setting.resume->reader;
  // In the run's own folder this step is saved already.
  if (reader.path().parent_path() != folder) return;
  last_step_ = reader.meta().step;
  if (!run_.options.keep_best || !reader.has_section(best_section)) return;
  const auto best = Json::parse(reader.section(best_section));
  best_ = observe::Best{best.at("step").get<std::int64_t>(), best.at("value").get<double>(), ""};
  best_->path = checkpoint::step_folder(folder, best_->step).string();
}

void CheckpointManager::reserve() {
  if (on() && run_.options.asynchronous) writer_->reserve(run_.boxes());
}

bool CheckpointManager::clock_asks() const {
  const auto minutes = run_.options.every_minutes;
  if (!on() || minutes == 0) return false;
  return std::chrono::duration<double, std::ratio<60>>(Clock::now() - last_time_).count() >= minutes;
}

bool CheckpointManager::due(const Boundary& boundary) const {
  const auto& options = run_.options;
  // The clock asked for the step after a save before that save was made.
  if (boundary.clock && boundary.steps_done > last_step_ + 1) return true;
  if (options.every_eval && boundary.evaluation) return true;
  if (options.every_steps > 0 && boundary.steps_done % options.every_steps == 0) return true;
  return options.every_epoch && run_.plan.ends_epoch(boundary.steps_done);
}

// Is this evaluation better than all before? It is the best from now on, since it will be saved.
bool CheckpointManager::judge(const Boundary& boundary) {
  const auto& options = run_.options;
  if (!options.keep_best || !boundary.evaluation) return false;
  const auto value = metric(options, *boundary.evaluation);
  if (!std::isfinite(value)) return false;
  const bool better = !best_ || (options.mode == "min" ? value < best_->value : value > best_->value);
  if (better) {
    best_ =
        observe::Best{boundary.steps_done, value,
                      checkpoint::step_folder(session::checkpoint_folder(run_.folder), boundary.steps_done).string()};
  }
  return better;
}

bool CheckpointManager::wants(const Boundary& boundary) {
  if (!on()) return false;
  const bool best = judge(boundary);
  return best || due(boundary);
}

double CheckpointManager::needs_s() const {
  constexpr double unmeasured_bytes_per_s = 2e8;  // of a rank on a file system that many others write to
  if (writer_ && writer_->last_duration_s() > 0) return 1.5 * writer_->last_duration_s();
  return on() || run_.saves_weights ? run_.bytes_of_rank / unmeasured_bytes_per_s : 0;
}

void CheckpointManager::save(const Boundary& boundary, const observe::Statistics& statistics) {
  const auto begin = Clock::now();
  const auto steps_done = boundary.steps_done;
  auto meta = meta_of(run_, steps_done);
  meta.sections = sections_of(run_, updates_, statistics, steps_done);
  if (best_) meta.sections[best_section] = Json{{"step", best_->step}, {"value", best_->value}}.dump();
  meta.metrics = metrics_of(boundary.evaluation);
  const auto boxes = run_.boxes();
  const std::chrono::duration<double> prepared = Clock::now() - begin;
  publish(writer_->start(std::move(meta), boxes));
  prepared_s_ = prepared.count();
  last_step_ = steps_done;
  last_time_ = Clock::now();
  if (!run_.options.asynchronous) wait();
}

std::optional<observe::CheckpointSummary> CheckpointManager::summary() const {
  if (!on()) return {};
  return observe::CheckpointSummary{totals_, best_};
}

void CheckpointManager::before_update() {
  if (on()) writer_->before_update();
}

void CheckpointManager::poll() {
  if (on()) publish(writer_->poll());
}

void CheckpointManager::wait() {
  if (on()) publish(writer_->wait());
}

void CheckpointManager::publish(const std::optional<checkpoint::Saved>& saved) {
  if (!saved) return;
  monitor::CheckpointSaved event;
  event.step = saved->step;
  event.path = saved->path.string();
  event.bytes = saved->bytes;
  event.stall_s = prepared_s_ + saved->stall_s;
  event.write_s = saved->write_s;
  if (saved->write_s > 0) event.bytes_per_second = static_cast<double>(saved->bytes) / saved->write_s;
  ++totals_.saves;
  totals_.bytes += event.bytes;
  totals_.stall_s += event.stall_s;
  totals_.most_stall_s = std::max(totals_.most_stall_s, event.stall_s);
  totals_.write_s += event.write_s;
  totals_.last = event.path;
  observers_.checkpoint_saved(event);
}

fs::path CheckpointManager::save_weights(comm::Group& world, std::int64_t steps_done) const {
  auto folder = run_.folder / "weights";
  checkpoint::save(folder, world, meta_of(run_, steps_done), run_.weights(), attempt_);
  return folder;
}

}  // namespace capstan::train
