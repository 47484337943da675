#include "train/loop.h"

#include <capstan/base/clock.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>
#include <capstan/monitor/process_tree.h>
#include <unistd.h>

#include "comm/agree.h"
#include "observe/memory.h"
#include "observe/run_summary.h"

namespace capstan::train {
namespace {

// For what follows the last save: closing files, srun's and the job script's ends.
constexpr double ending_margin_s = 15;

}  // namespace

Loop::Loop(const LoopParts& parts, observe::RunFolder& folder, const inference::Stop& stop, const SaveSetting& setting)
    : parts_(parts),
      folder_(folder),
      stop_(stop),
      pipeline_(parts.steps, observers_, [this] { return wishes(); }),
      evaluations_(parts.evaluation, pipeline_.feed(),
                   inference::StopAgreement(parts.steps.world, stop, [this] { return time_is_up(); }), observers_,
                   folder),
      checkpoints_(parts.saved, pipeline_.step().updates(), parts.steps.communicator, observers_, setting) {
  observers_.add("", statistics_);
  observers_.add("", folder_);
  for (const auto& made : parts_.monitors) observers_.add(made.name, *made.object);
  pipeline_.step().before_update([this] { checkpoints_.before_update(); });
  const bool resumes = setting.resume && setting.resume->reader;
  if (resumes) restore(*setting.resume->reader);
  if (parts_.saved.options.resume != "auto") return;
  // Only now all of the checkpoint was read: what is cut before is lost if it cannot be.
  comm::from_first_rank(parts.steps.communicator, "preparing the run's metrics.jsonl", [&] {
    if (resumes) {
      folder.resume_after(parts_.started.first_step, answers_again());
    } else {
      folder.start_over();
    }
    return std::string();
  });
}

void Loop::restore(checkpoint::Reader& reader) {
  statistics_ = resume_from(reader, checkpoints_.run(), pipeline_.step().updates());
  earlier_runtime_s_ = statistics_.runtime_s;
  pipeline_.nonfinite().set_in_a_row(statistics_.skipped_in_a_row);
  parts_.started.first_step = reader.meta().step;
  statistics_.drop_answers(parts_.started.first_step, answers_again());
}

// The splits whose questions a run that had done all its steps answers once more.
std::vector<std::string> Loop::answers_again() const {
  if (parts_.started.first_step < parts_.saved.plan.steps) return {};
  return evaluations_.asked_splits();
}

// Before the first step is over nobody knows what one takes, and a run that stops there gets nowhere.
bool Loop::time_is_up() const {
  const auto step_s = pipeline_.longest_step_s();
  const auto ending_s = 2 * step_s + checkpoints_.needs_s() + ending_margin_s;
  return step_s > 0 && stop_.time_is_up(std::chrono::duration<double>(ending_s));
}

inference::Wishes Loop::wishes() const {
  return {stop_.asked(), stop_.asks() > 1, time_is_up(), checkpoints_.clock_asks()};
}

double Loop::usual_step_s() const {
  const auto steps = parts_.saved.plan.steps;
  if (steps < 2) return 0;
  return (statistics_.train_runtime_s - pipeline_.longest_step_s()) / static_cast<double>(steps - 1);
}

double Loop::runtime_s() const { return earlier_runtime_s_ + seconds_since(begin_); }

monitor::RunEnded Loop::run() {
  try {
    return run_all();
  } catch (const comm::PeerFailed&) {
    throw;  // the rank that failed says why
  } catch (const inference::Stopped&) {
    throw;
  } catch (const std::exception& error) {
    observers_.run_failed({error.what(), observe::is_out_of_memory(error)});
    throw;
  }
}

monitor::RunEnded Loop::run_all() {
  begin_ = Clock::now();
  for (const auto& place : parts_.steps.communicator.exchange(
           cat(parts_.steps.communicator.world().host, '\n', static_cast<std::int64_t>(::getpid())))) {
    const auto parts = split(place, '\n');
    parts_.started.hosts.push_back(parts.front());
    parts_.started.processes.push_back(std::stoll(parts.back()));
  }
  pipeline_.step().hooks().begin(parts_.started.first_step);
  checkpoints_.reserve();
  observers_.run_started(parts_.started);
  trace();
  const observe::MemoryWatch memory(parts_.steps.parts.model.device);
  const auto steps_done = run_steps();
  auto peak = memory.peak();
  save_at_end(steps_done);
  try {
    if (!stopped_) pipeline_.step().during_evaluation(steps_done, [&] { evaluations_.answer_all(steps_done); });
  } catch (const inference::Stopped&) {
    pipeline_.stop();
    stopped_ = true;
  }
  checkpoints_.wait();
  auto ended = ended_after(steps_done);
  // The process' own peak counts until here, as monitors tell it.
  peak.host = monitor::peak_resident_bytes();
  peaks_ = observe::exchange_peaks(peak, parts_.steps.communicator);
  ended.summary = observe::exchange_summary(observers_.summary(ended), parts_.steps.communicator);
  folder_.write_summary(parts_.started, ended, statistics_, peaks_, parts_.steps.parts.model.engine.host_update_times(),
                        checkpoints_.summary(), evaluations_.shown_answers());
  observers_.run_ended(ended);
  parts_.steps.communicator.trace(nullptr);
  return ended;
}

// But for what monitors say of it.
monitor::RunEnded Loop::ended_after(std::int64_t steps_done) const {
  monitor::RunEnded ended;
  ended.steps = steps_done;
  ended.samples = statistics_.samples;
  ended.tokens = statistics_.tokens;
  ended.train_runtime_s = statistics_.train_runtime_s;
  ended.runtime_s = runtime_s();
  ended.mean_loss = statistics_.mean_loss();
  ended.epochs = parts_.saved.plan.epoch_progress(steps_done);
  ended.weights = weights_;
  if (checkpoints_.best()) ended.best = checkpoints_.best()->path;
  return ended;
}

// Spans of units cost nothing where no monitor asks for any.
void Loop::trace() {
  auto tracers = observers_.tracers();
  if (!tracers.empty()) pipeline_.step().trace(std::make_shared<observe::Tracers>(tracers));
  if (parts_.started.world_size > 1) tracers.push_back(pipeline_.clock());
  if (!tracers.empty()) parts_.steps.communicator.trace(std::make_shared<observe::Tracers>(std::move(tracers)));
}

// Returns the number of steps done since the run's beginning.
std::int64_t Loop::run_steps() {
  const auto steps = parts_.saved.plan.steps;
  auto step = parts_.started.first_step;
  if (step < steps) pipeline_.begin(step);
  // Stopped inside that evaluation: the checkpoint that it left has no metric, by which this step may be the best.
  if (evaluations_.due(step) && !statistics_.evaluation_after(step)) pass_boundary(step);
  while (step < steps && !stopped_) {
    if (!pipeline_.take(step)) {
      stopped_ = true;
      break;
    }
    pass_boundary(++step);
  }
  pipeline_.drain();
  return step;
}

// What is due after a step.
void Loop::pass_boundary(std::int64_t steps_done) {
  if (evaluations_.due(steps_done)) evaluate(steps_done);
  if (stopped_) return;  // save_at_end saves, and the run evaluates when it is resumed
  if (parts_.replicas.due(steps_done, parts_.started.first_step)) parts_.replicas.run(steps_done);
  checkpoints_.poll();
  const Boundary boundary{steps_done, pipeline_.agreed().save, statistics_.evaluation_after(steps_done)};
  if (checkpoints_.wants(boundary)) save(boundary);
}

void Loop::evaluate(std::int64_t steps_done) {
  pipeline_.drain();
  const auto begin = Clock::now();
  try {
    pipeline_.step().during_evaluation(steps_done, [&] { evaluations_.run(steps_done); });
  } catch (const inference::Stopped&) {
    pipeline_.stop();
    stopped_ = true;
  }
  pipeline_.leave_out(seconds_since(begin));
}

void Loop::save(const Boundary& boundary) {
  pipeline_.drain();
  const auto begin = Clock::now();
  pipeline_.step().hooks().before_save(boundary.steps_done);
  if (boundary.steps_done > parts_.started.first_step) parts_.replicas.run(boundary.steps_done);
  statistics_.runtime_s = runtime_s();
  statistics_.skipped_in_a_row = pipeline_.nonfinite().in_a_row();
  checkpoints_.save(boundary, statistics_);
  pipeline_.leave_out(seconds_since(begin));
}

// A run that stops leaves a checkpoint to resume from, and no weights besides. After a second request only what is
// under way is finished.
void Loop::save_at_end(std::int64_t steps_done) {
  if (agreed().hurry) return;
  if (checkpoints_.on() && !checkpoints_.is_saved(steps_done))
    save({steps_done, false, statistics_.evaluation_after(steps_done)});
  if (stopped_) checkpoints_.wait();
  if (!parts_.saved.saves_weights || (stopped_ && checkpoints_.on())) return;
  pipeline_.step().during_evaluation(
      steps_done, [&] { weights_ = checkpoints_.save_weights(*parts_.steps.world, steps_done).string(); });
  if (!stopped_) model_ = write_final_model(parts_.model, weights_, folder_.path(), parts_.steps.communicator);
}

}  // namespace capstan::train
