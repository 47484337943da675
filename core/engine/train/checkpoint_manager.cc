#include "train/checkpoint_manager.h"

#include <capstan/base/clock.h>
#include <capstan/base/json.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "checkpoint/durable_file.h"
#include "comm/agree.h"
#include "config/to_toml.h"
#include "job/sections.h"
#include "setup/schedule.h"
#include "step/saved_state.h"
#include "train/answer_ends.h"

namespace capstan::train {

namespace fs = std::filesystem;

namespace {

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

std::string schedule_of(const job::Job& job) {
  return setup::schedule_text(*job.config.optimizer, job.samples.plan.steps);
}

checkpoint::BestRule rule_of(const job::Job& job) {
  return {job.config.checkpoint->metric, job.samples.lowest_is_best};
}

checkpoint::WriterOptions writer_options(const job::Job& job, const fs::path& folder, const SaveSetting& setting) {
  const auto& options = *job.config.checkpoint;
  checkpoint::WriterOptions writer;
  writer.folder = folder;
  writer.attempt = setting.attempt;
  writer.pinned = job.topology.policy.pin_memory;
  writer.keep.last = options.keep;
  if (options.keep_best) writer.keep.best = rule_of(job);
  writer.at_point = setting.at_point;
  return writer;
}

constexpr const char* schedule_section = "schedule";

}  // namespace

checkpoint::Meta meta_of(const job::Job& job, std::int64_t steps_done) {
  checkpoint::Meta meta;
  meta.step = steps_done;
  meta.config = config::to_toml(job.tables());
  meta.mesh = job.topology.mesh.arithmetic();
  meta.world_size = job.topology.mesh.world_size();
  meta.sections[answer_ends_section] = Json(answer_ends(job.samples)).dump();
  return meta;
}

std::map<std::string, std::string> sections_of(const step::Session& session, const step::Updates& updates,
                                               const Statistics& statistics, std::int64_t steps_done) {
  auto sections = job::change_sections(*session.job);
  sections[schedule_section] = schedule_of(*session.job);
  if (auto adapters = job::adapters_section(session.units); !adapters.empty())
    sections["adapters"] = std::move(adapters);
  sections["updates"] = updates.save();
  sections["cursor"] = job::cursor_section(*session.job, steps_done);
  sections["run"] = statistics.save();
  return sections;
}

Statistics resume_from(checkpoint::Reader& reader, step::Session& session, step::Updates& updates) {
  const auto& topology = session.job->topology;
  auto words = step::restore_state(session, reader);
  updates.restore(reader.section("updates"));
  // A run may continue with another schedule, but the user should know of it.
  const auto changes = setup::schedule_changes(reader.section(schedule_section), schedule_of(*session.job));
  if (!changes.empty())
    words.push_back("the learning rate follows another schedule than the one that was saved: " + join(changes));
  if (const auto mesh = topology.mesh.arithmetic(); reader.meta().mesh != mesh) {
    log::info(cat("it was saved on ", reader.meta().mesh, "; the same global batches follow on ", mesh,
                  ", with sums in another order"));
  }
  for (const auto& text : words) {
    if (topology.rank == 0) log::warning(cat("resuming from ", reader.path().string(), ": ", text));
  }
  return Statistics::restore(reader.section("run"));
}

CheckpointManager::CheckpointManager(const step::Session& session, const fs::path& folder, const step::Updates& updates,
                                     Observers& observers, const SaveSetting& setting)
    : session_(session),
      options_(*session.job->config.checkpoint),
      run_folder_(folder),
      updates_(updates),
      observers_(observers),
      setting_(setting) {
  if (options_.saves()) {
    open(options_.asynchronous);
    find_best();
  }
  const auto checkpoints = job::checkpoint_folder(folder);
  if (!setting.resume || !setting.resume->reader) return;
  // In the run's own folder this step is saved already.
  const auto& reader = *setting.resume->reader;
  if (reader.path().parent_path() == checkpoints) last_step_ = reader.meta().step;
}

// What is on the disk decides, since a run may be resumed with another metric, or have kept no best one before.
void CheckpointManager::find_best() {
  if (!options_.keep_best) return;
  wait();
  totals_.best.reset();
  const auto text = comm::from_first_rank(*session_.communicator, "looking for the best checkpoint", [&] {
    const auto all = checkpoint::whole_ones(job::checkpoint_folder(run_folder_));
    const auto best = checkpoint::best_by(rule_of(*session_.job), all);
    return best ? Json{best->path.string(), best->step, best->value}.dump() : std::string();
  });
  if (text.empty()) return;
  const auto best = Json::parse(text);
  totals_.best =
      checkpoint::Best{best.at(0).get<std::string>(), best.at(1).get<std::int64_t>(), best.at(2).get<double>()};
}

void CheckpointManager::open(bool asynchronous) {
  auto options = writer_options(*session_.job, job::checkpoint_folder(run_folder_), setting_);
  options.async = asynchronous;
  writer_ = std::make_unique<checkpoint::Writer>(std::move(options),
                                                 comm::group_of_all(*session_.communicator, "checkpoints"));
}

void CheckpointManager::begin_if_room() {
  std::int64_t own = 0, all = 0;
  for (const auto& box : step::saved_boxes(session_)) own += static_cast<std::int64_t>(box.data.nbytes());
  for (const auto& bytes : session_.communicator->exchange(std::to_string(own))) all += std::stoll(bytes);
  const auto lacks = comm::from_first_rank(*session_.communicator, "looking for room for a checkpoint", [&] {
    const auto free = checkpoint::free_bytes(run_folder_);
    if (free < 0 || free > all) return std::string();
    const auto text = [](std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); };
    log::warning(cat("no checkpoint is saved: it needs ", text(all), ", and ", run_folder_.string(), " has ",
                     text(free), " of free space"));
    return std::string("room");
  });
  if (lacks.empty()) open(/*asynchronous=*/false);
}

void CheckpointManager::reserve() {
  if (on() && options_.asynchronous) writer_->reserve(step::saved_boxes(session_));
}

bool CheckpointManager::clock_asks() const {
  const auto minutes = options_.every_minutes;
  if (!on() || minutes == 0) return false;
  return seconds_since(last_time_) >= 60 * minutes;
}

bool CheckpointManager::due(const Boundary& boundary) const {
  // The clock asked for the step after a save before that save was made.
  if (boundary.clock && boundary.steps_done > last_step_ + 1) return true;
  if (options_.every_eval && boundary.evaluation) return true;
  if (options_.every_steps > 0 && boundary.steps_done % options_.every_steps == 0) return true;
  return options_.every_epoch && session_.job->samples.plan.ends_epoch(boundary.steps_done);
}

// Is this evaluation better than all before? It is the best from now on, since it will be saved.
bool CheckpointManager::judge(const Boundary& boundary) {
  if (!options_.keep_best || !boundary.evaluation) return false;
  const auto value = metric(options_, *boundary.evaluation);
  if (!std::isfinite(value)) return false;
  const bool better = !totals_.best || rule_of(*session_.job).is_better(value, totals_.best->value);
  const auto folder = job::checkpoint_folder(run_folder_);
  if (better) totals_.best = {checkpoint::step_folder(folder, boundary.steps_done), boundary.steps_done, value};
  return better;
}

bool CheckpointManager::wants(const Boundary& boundary) {
  if (!on()) return false;
  const bool best = judge(boundary);
  return best || due(boundary);
}

double CheckpointManager::needs_s() const {
  constexpr double unmeasured_bytes_per_s = 2e8;  // a rank's on a file system that many others write to
  if (writer_ && writer_->last_duration_s() > 0) return 1.5 * writer_->last_duration_s();
  if (!on() && !session_.job->config.run->save_weights) return 0;
  double bytes = 0;  // as predicted: what a rank writes at most
  for (const auto& footprint : session_.job->prediction.footprints) bytes += static_cast<double>(footprint.bytes);
  return bytes / unmeasured_bytes_per_s;
}

void CheckpointManager::save(const Boundary& boundary, const Statistics& statistics) {
  const auto begin = Clock::now();
  const auto steps_done = boundary.steps_done;
  auto meta = meta_of(*session_.job, steps_done);
  meta.sections.merge(sections_of(session_, updates_, statistics, steps_done));
  if (options_.keep_best) meta.sections[checkpoint::BestRule::section] = rule_of(*session_.job).text();
  meta.metrics = metrics_of(boundary.evaluation);
  const auto boxes = step::saved_boxes(session_);
  const auto prepared_s = seconds_since(begin);
  publish(writer_->start(std::move(meta), boxes));
  prepared_s_ = prepared_s;
  last_step_ = steps_done;
  last_time_ = Clock::now();
  if (!options_.asynchronous) wait();
}

std::optional<SaveTotals> CheckpointManager::summary() const { return on() ? std::optional(totals_) : std::nullopt; }

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

fs::path CheckpointManager::save_weights(std::int64_t steps_done) {
  auto folder = run_folder_ / "weights";
  find_best();
  auto boxes = step::saved_weights(session_);
  const bool is_best = options_.final_weights == "best" && totals_.best;
  if (is_best && totals_.best->step != steps_done) fill_from_best(boxes);
  if (options_.final_weights == "best" && !is_best && session_.job->topology.rank == 0)
    log::warning(cat("no checkpoint has a finite ", options_.metric, ": the final weights are the last ones"));
  totals_.weights_step = is_best ? totals_.best->step : steps_done;
  checkpoint::save(folder, *session_.world_host, meta_of(*session_.job, totals_.weights_step), boxes, setting_.attempt);
  return folder;
}

// What the checkpoint does not have is frozen, and as it was.
void CheckpointManager::fill_from_best(std::vector<checkpoint::TensorBox>& boxes) {
  writer_->release();
  comm::agree(*session_.communicator, "reading the best checkpoint", [&] {
    checkpoint::Reader best(totals_.best->path);
    for (auto& box : boxes) {
      if (!best.has(box.tensor)) continue;
      auto value = at::empty(box.data.sizes(), box.data.options().device(at::kCPU));
      best.read(box.tensor, box.box, value);
      box.data = std::move(value);
    }
    return std::string();
  });
}

}  // namespace capstan::train
