#include "train/run.h"

#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>
#include "plugin/guard.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "comm/agree.h"
#include "monitor/memory_text.h"
#include "train/resume.h"
#include "train/unsaved.h"

namespace capstan::train {
namespace {

// That the ranks stop is no fault of an extension's.
template <class Call>
auto call_extension(const Extension& extension, const char* phase, const Call& call) {
  try {
    return call(*extension.object);
  } catch (const step::Stopped&) {
    throw;
  } catch (...) {
    plugin::rethrow_with_context(cat("plugin '", extension.name, "' was in phase ", phase));
  }
}

// What rank 0 says where filling parameters takes long: a line that is written over on a terminal, one in a file.
std::function<void(std::int64_t, std::int64_t)> fill_progress(const ShowProgress& show, bool is_terminal) {
  using Clock = std::chrono::steady_clock;
  return [show, is_terminal, begin = Clock::now(), said = false](std::int64_t done, std::int64_t all) mutable {
    if (Clock::now() - begin < std::chrono::seconds(is_terminal ? 1 : 10) || (said && !is_terminal)) return;
    said = true;
    show(cat("filling parameters: ", thousands(done), " of ", thousands(all)), done == all);
  };
}

}  // namespace

RunEnd Run::train() {
  RunEnd end;
  try {
    const int code = load();
    end.exit_code = code == 0 ? train_loaded() : code;
  } catch (const step::Stopped&) {
    log::debug(cat("stopped ", when_));
  }
  end.when = when_;
  end.resumable = saved_ || job_->config.checkpoint->saves();
  if (folder_) end.folder = folder_->path();
  end.requeue_exit_code = static_cast<int>(job_->config.run->requeue_exit_code);
  return end;
}

void Run::give_up() {
  // What waits for a disk is lost with the process.
  const auto missing = folder_ ? folder_->finish(std::chrono::milliseconds(0)) : std::string();
  if (!missing.empty()) log::error(missing);
  lock_.reset();
}

std::string Run::memory_text() const {
  if (!job_ || job_->config.device == "cpu") return {};
  std::vector<layout::Footprint> held;
  if (session_) held = session_->held();
  return monitor::memory_text(memory_parts(job_->prediction.footprints), memory_parts(held),
                              device_peak(job::device_of(job_->config)));
}

// All that comes before training. Returns an exit code other than 0 where an extension ends the run.
int Run::load() {
  const step::StopAgreement agreement(comm::group_of_all(setting_.communicator, "loading"), setting_.stop);
  read_job(agreement);
  when_ = "while loading the model";
  hold_folder(agreement);
  when_ = "in the pre-flight";
  if (const int code = call_extensions(agreement); code != 0) return code;
  job_->config.request.ended("preflight");
  when_ = "while loading the model";
  load_model(agreement);
  return 0;
}

void Run::read_job(const step::StopAgreement& agreement) {
  auto& communicator = setting_.communicator;
  when_ = "while reading the configuration";
  job_.emplace(prepare_together(setting_.request(), setting_.plugins, communicator));
  agreement.check();
  job_->config.request.ended("prediction");
  setting_.prepared(*job_);
  when_ = "while tokenizing";
  read_token_caches(*job_, setting_.stop, communicator, setting_.output.show);
  job_->config.request.ended("token_caches");
  extensions_ = setting_.extensions(*job_);
  for (const auto& made : job_->plugins.extensions) extensions_.push_back({made.name, made.object});
  std::stable_sort(extensions_.begin(), extensions_.end(),
                   [](const auto& a, const auto& b) { return a.name < b.name; });
}

void Run::hold_folder(const step::StopAgreement& agreement) {
  auto& communicator = setting_.communicator;
  const auto folder = shared_run_folder(job_->config, communicator);
  lock_ = hold_run_folder(folder, setting_.job, communicator, agreement);
  comm::agree(communicator, "opening the run's folder", [&] {
    folder_.emplace(folder, communicator.world().rank);
    log::configure(folder_->log_file(), log::Level::warning, communicator.world().rank);
    folder_->write_config(job_->tables());
    setting_.opened(folder_->path());
    return std::string();
  });
  if (!first()) return;
  if (job_->topology.policy.offload_optim && !setting_.offload_warning.empty()) log::warning(setting_.offload_warning);
  warn_of_options(*job_);
}

int Run::call_extensions(const step::StopAgreement& agreement) {
  const command::RankOfRun rank{setting_.communicator, setting_.device, folder_->path(), setting_.environment,
                                [&] { agreement.check(); }};
  for (const auto& extension : extensions_) {
    const auto call = [&](command::RunExtension& object) { return object.before_training(rank); };
    if (const int code = call_extension(extension, "before_training", call); code != 0) return code;
  }
  return 0;
}

void Run::load_model(const step::StopAgreement& agreement) {
  resume_ = resume_run(*job_, setting_.communicator);
  agreement.check();
  const auto show = first() ? fill_progress(setting_.output.show, setting_.output.overwrites) : nullptr;
  // Ranks of different stages do not fill as many buckets as each other, and agree when all are filled.
  const bool is_whole = job_->topology.mesh.size(layout::Axis::pp) == 1;
  const auto progress = [&](std::int64_t done, std::int64_t all) {
    if (show) show(done, all);
    if (is_whole) agreement.check();
  };
  session_ = step::materialise(*job_, setting_.communicator, progress, resume_.reader.get());
  if (!is_whole) agreement.check();
}

// Nothing where the ranks stop on the way.
std::optional<int> Run::train_loaded() {
  if (first()) setting_.output.print(start_text());
  monitor::RunStarted started;
  started.output_is_terminal = setting_.output.is_terminal;
  started.gpu_uuid = setting_.device.uuid;
  started.environment = setting_.environment;
  for (const auto& extension : extensions_)
    call_extension(extension, "answer", [&](command::RunExtension& object) { object.answer(started.memory); });
  const SaveSetting saves{&resume_, setting_.job.empty() ? "0" : setting_.job, setting_.at_point};
  Loop loop(*session_, *folder_, setting_.stop, saves, std::move(started));
  const auto ended = loop.run();
  if (!loop.stopped()) end_extensions(loop, ended.steps);
  if (first() && !loop.stopped_early().empty())
    setting_.output.print(cat("stopped early, ", loop.stopped_early(), "\n"));
  if (first() && !loop.model().empty()) setting_.output.print(loop.model() + "\n");
  const bool lost = has_lost_results();
  if (!loop.stopped()) return static_cast<int>(lost ? ExitCode::failure : ExitCode::success);
  saved_ = loop.saves();
  when_ = cat("after step ", ended.steps);
  return {};
}

void Run::end_extensions(const Loop& loop, std::int64_t steps_done) {
  command::TrainedRun trained{memory_parts(job_->prediction.footprints)};
  for (const auto& peak : loop.peaks()) {
    trained.setup_bytes = std::max(trained.setup_bytes, peak.device_setup);
    trained.peak_bytes = std::max(trained.peak_bytes, peak.device);
  }
  // The time of a run that was resumed includes that on other machines.
  if (!resume_.reader) trained.step_s = loop.usual_step_s(steps_done);
  for (const auto& extension : extensions_) {
    const auto text = call_extension(extension, "after_training",
                                     [&](command::RunExtension& object) { return object.after_training(trained); });
    if (first() && !text.empty()) setting_.output.print(text);
  }
}

std::string Run::start_text() const {
  const bool brief = !setting_.output.verbose;
  auto text = cat(job_->model_summary(brief), job_->ranks_summary(brief), job_->samples.notes,
                  "run folder: ", folder_->path().string(), "\n");
  if (!resume_.reader) return text;
  return text + cat("resuming from ", resume_.reader->path().string(), ", after step ", resume_.reader->meta().step,
                    " of ", job_->samples.plan.steps, "\n");
}

// What is missing of the run's results for lack of room, said on rank 0 and known to all; the log's own lines are said
// by each rank.
bool Run::has_lost_results() {
  constexpr std::chrono::milliseconds patience{5000};
  const auto finish = [&] { return folder_->finish(patience); };
  const auto missing = comm::agree(setting_.communicator, "writing the run's last lines", finish).front();
  if (first() && !missing.empty()) {
    log::error(cat("not all of the run's results could be written:\n", missing,
                   "\n    fix: free space there; what the run has saved as checkpoints and weights is whole"));
  }
  if (const auto lines = log::finish(std::chrono::milliseconds(0)); !lines.empty()) log::warning(lines);
  return !missing.empty();
}

}  // namespace capstan::train
