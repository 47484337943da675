#include "train/saving.h"

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

// A run may go on with another schedule; nobody should do so without knowing.
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
std::map<std::string, double> metrics_of(const monitor::EvalEnded* evaluation) {
  std::map<std::string, double> metrics;
  if (!evaluation) return metrics;
  if (evaluation->loss) metrics["eval_loss"] = *evaluation->loss;
  for (const auto& [name, value] : evaluation->scores) metrics["eval_" + name] = value;
  return metrics;
}

double metric(const setup::CheckpointOptions& options, const monitor::EvalEnded& evaluation) {
  const auto metrics = metrics_of(&evaluation);
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
                                               const Statistics& statistics, std::int64_t steps_done) {
  auto sections = run.sections;
  sections["updates"] = updates.take();
  sections["cursor"] = run.cursor(steps_done);
  sections["run"] = statistics.take();
  return sections;
}

Statistics resume_from(checkpoint::Reader& reader, const SavedRun& run, Updates& updates) {
  auto words = run.restore(reader);
  updates.give(reader.section("updates"));
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
  return Statistics::give(reader.section("run"));
}

Saving::Saving(SavedRun run, const Updates& updates, comm::Communicator& communicator, const fs::path& run_folder,
               const SaveSetting& setting)
    : run_(std::move(run)), updates_(updates), folder_(session::checkpoint_folder(run_folder)) {
  if (!run_.options.saves()) return;
  writer_ = std::make_unique<checkpoint::Writer>(writer_options(run_, folder_, setting), everyone(communicator));
  if (run_.options.asynchronous) writer_->reserve(run_.boxes());
  if (!setting.resume || !setting.resume->reader) return;
  const auto& reader = *setting.resume->reader;
  // In the run's own folder this step is saved already.
  if (reader.path().parent_path() != folder_) return;
  last_step_ = reader.meta().step;
  if (!run_.options.keep_best || !reader.has_section(best_section)) return;
  const auto best = Json::parse(reader.section(best_section));
  best_ = Best{best.at("step").get<std::int64_t>(), best.at("value").get<double>(), ""};
  best_->path = checkpoint::step_folder(folder_, best_->step).string();
}

bool Saving::clock_asks() const {
  const auto minutes = run_.options.every_minutes;
  if (!on() || minutes == 0) return false;
  return std::chrono::duration<double, std::ratio<60>>(Clock::now() - last_time_).count() >= minutes;
}

bool Saving::due(const Boundary& boundary) const {
  const auto& options = run_.options;
  // The clock asked for the step behind a save before that save was made.
  if (boundary.clock && boundary.steps_done > last_step_ + 1) return true;
  if (options.every_eval && boundary.evaluation) return true;
  if (options.every_steps > 0 && boundary.steps_done % options.every_steps == 0) return true;
  return options.every_epoch && run_.plan.ends_epoch(boundary.steps_done);
}

// Is this evaluation better than all before? It is the best from now on, since it will be saved.
bool Saving::judge(const Boundary& boundary) {
  const auto& options = run_.options;
  if (!options.keep_best || !boundary.evaluation) return false;
  const auto value = metric(options, *boundary.evaluation);
  if (!std::isfinite(value)) return false;
  const bool better = !best_ || (options.mode == "min" ? value < best_->value : value > best_->value);
  if (better) best_ = Best{boundary.steps_done, value, checkpoint::step_folder(folder_, boundary.steps_done).string()};
  return better;
}

bool Saving::wants(const Boundary& boundary) {
  if (!on()) return false;
  const bool best = judge(boundary);
  return best || due(boundary);
}

std::optional<monitor::CheckpointSaved> Saving::save(const Boundary& boundary, const Statistics& statistics) {
  const auto begin = Clock::now();
  const auto steps_done = boundary.steps_done;
  auto meta = meta_of(run_, steps_done);
  meta.sections = sections_of(run_, updates_, statistics, steps_done);
  if (best_) meta.sections[best_section] = Json{{"step", best_->step}, {"value", best_->value}}.dump();
  meta.metrics = metrics_of(boundary.evaluation);
  const auto boxes = run_.boxes();
  const std::chrono::duration<double> prepared = Clock::now() - begin;
  auto before = count(writer_->start(std::move(meta), boxes));
  prepared_s_ = prepared.count();
  last_step_ = steps_done;
  last_time_ = Clock::now();
  return before;
}

void Saving::before_update() {
  if (on()) writer_->before_update();
}

std::optional<monitor::CheckpointSaved> Saving::poll() { return on() ? count(writer_->poll()) : std::nullopt; }

std::optional<monitor::CheckpointSaved> Saving::wait() { return on() ? count(writer_->wait()) : std::nullopt; }

std::optional<monitor::CheckpointSaved> Saving::count(const std::optional<checkpoint::Saved>& saved) {
  if (!saved) return std::nullopt;
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
  return event;
}

void save_weights(const SavedRun& run, const fs::path& folder, comm::Group& world, std::int64_t steps_done,
                  const std::string& attempt) {
  checkpoint::save(folder, world, meta_of(run, steps_done), run.weights(), attempt);
}

}  // namespace capstan::train
