#include "train/loop.h"

#include <capstan/base/clock.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>
#include <capstan/monitor/resident.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "comm/agree.h"
#include "diagnosis/door.h"
#include "setup/stopping.h"
#include "train/answer_ends.h"
#include "train/exports.h"
#include "train/memory.h"

namespace capstan::train {
namespace {

// The time for what follows the last save: closing files, srun's and the job script's ends.
constexpr double ending_margin_s = 15;

void add_settings(const job::Job& job, monitor::RunStarted& started) {
  for (const auto& table : job.tables()) {
    for (const auto& entry : table.host) started.settings.push_back({table.path, entry.key, entry.value, entry.origin});
    for (const auto& option : table.options)
      started.settings.push_back({table.path, option.spec.key, option.value, option.origin});
  }
}

// What is known of the run before it begins, except for what only the process knows.
void describe(const step::Session& session, const std::filesystem::path& folder, monitor::RunStarted& started) {
  const auto& job = *session.job;
  const auto& world = session.communicator->world();
  const auto& batch = job.topology.batch;
  started.name = job.config.name;
  started.rank = world.rank;
  started.world_size = world.size;
  started.data_parallel_size = static_cast<int>(batch.data_parallel_size);
  started.backend = session.communicator->backend(session.device);
  started.device = job.config.device;
  const auto model = nn::summarise(job.model->units);  // all of it, whatever this rank computes
  started.parameters = model.parameters;
  started.trainable_parameters = model.trainable;
  started.steps = job.samples.plan.steps;
  started.steps_per_epoch = job.samples.plan.steps_per_epoch;
  started.global_batch = batch.global_batch;
  started.micro_batch = batch.micro_batch;
  started.accumulation = batch.accumulation;
  if (!session.device.is_cpu()) started.gpu = static_cast<unsigned char>(session.device.index());
  started.precision = job.config.train->precision;
  started.sequence_length = job.samples.length;
  started.flops_per_token = job.plugins.model->object->flops_per_token(job.samples.length);
  const auto& facts = job.plugins.model_facts;
  if (facts.gives(nn::HeadOutput::last_logits)) {
    started.head_flops_per_token =
        std::min(started.flops_per_token, 6.0 * static_cast<double>(facts.vocab_size * facts.hidden_size));
  }
  add_settings(job, started);
  started.folder = folder.string();
  started.memory.held = [&session] { return memory_parts(session.held()); };
}

// Opens the library where there is something to compare.
std::shared_ptr<diagnosis::Replicas> replicas_of(const step::Session& session) {
  const auto every = session.job->config.run->verify_replicas;
  const bool has_replicas = session.job->topology.mesh.world_size() > 1;
  return every > 0 && has_replicas ? diagnosis::door().replicas(session, every) : nullptr;
}

}  // namespace

Loop::Loop(step::Session& session, RunFolder& folder, const step::Stop& stop, const SaveSetting& setting,
           monitor::RunStarted started)
    : session_(session),
      folder_(folder),
      stop_(stop),
      started_(std::move(started)),
      pipeline_(session, folder.path(), observers_, [this] { return requests(); }),
      evaluations_(session, pipeline_.feed(),
                   step::StopAgreement(session.world_host, stop, [this] { return time_is_up(); }), observers_, folder),
      checkpoints_(session, folder.path(), pipeline_.step().updates(), observers_, setting),
      replicas_(replicas_of(session)) {
  describe(session, folder.path(), started_);
  observers_.add("", statistics_);
  observers_.add("", folder_);
  for (const auto& made : job().plugins.monitors) observers_.add(made.name, *made.object);
  pipeline_.step().before_update([this] { checkpoints_.before_update(); });
  const bool resumes = setting.resume && setting.resume->reader;
  if (resumes) restore(*setting.resume->reader);
  if (job().config.checkpoint->resume != "auto") return;
  // Only now all of the checkpoint was read: what is cut before is lost if it cannot be.
  comm::from_first_rank(*session.communicator, "preparing the run's metrics.jsonl", [&] {
    if (resumes) {
      folder.resume_after(started_.first_step, answers_again());
    } else {
      folder.start_over();
    }
    return std::string();
  });
}

void Loop::restore(checkpoint::Reader& reader) {
  statistics_ = resume_from(reader, session_, pipeline_.step().updates());
  pipeline_.nonfinite().set_in_a_row(statistics_.skipped_in_a_row);
  started_.first_step = reader.meta().step;
  judge_progress(started_.first_step);
  statistics_.drop_answers(started_.first_step, answers_again());
}

// The splits whose questions a run that had ended answers once more.
std::vector<std::string> Loop::answers_again() const {
  if (started_.first_step < job().samples.plan.steps && stopped_early().empty()) return {};
  return evaluations_.asked_splits();
}

// Before the first step is over it is unknown what one takes, and a run that stops there gets nowhere.
bool Loop::time_is_up() const {
  const auto step_s = pipeline_.longest_step_s();
  const auto ending_s = 2 * step_s + checkpoints_.needs_s() + ending_margin_s;
  return step_s > 0 && stop_.time_is_up(std::chrono::duration<double>(ending_s));
}

step::Requests Loop::requests() const {
  return {stop_.asked(), stop_.asks() > 1, time_is_up(), checkpoints_.clock_asks()};
}

double Loop::usual_step_s(std::int64_t steps_done) const {
  if (steps_done < 2) return 0;
  return (statistics_.train_runtime_s - pipeline_.longest_step_s()) / static_cast<double>(steps_done - 1);
}

monitor::RunEnded Loop::run() {
  try {
    return run_all();
  } catch (const comm::PeerFailed&) {
    throw;  // the rank that failed says why
  } catch (const step::Stopped&) {
    throw;
  } catch (const std::exception& error) {
    observers_.run_failed({error.what(), is_out_of_memory(error)});
    throw;
  }
}

monitor::RunEnded Loop::run_all() {
  // The clock starts as if the time until the checkpoint that it resumes from had just passed.
  begin_ =
      Clock::now() - std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(statistics_.runtime_s));
  for (const auto& place : session_.communicator->exchange(
           cat(session_.communicator->world().host, '\n', static_cast<std::int64_t>(::getpid())))) {
    const auto parts = split(place, '\n');
    started_.hosts.push_back(parts.front());
    started_.processes.push_back(std::stoll(parts.back()));
  }
  pipeline_.step().hooks().begin(started_.first_step);
  checkpoints_.reserve();
  job().config.request.ended("loop");
  if (const auto& phases = job().config.request.phases) started_.start_s = phases->seconds();
  observers_.run_started(started_);
  trace();
  const MemoryWatch memory(session_.device);
  const auto steps_done = run_steps();
  auto peak = memory.peak();
  save_at_end(steps_done);
  if (!stopped_) evaluate(steps_done, &Evaluations::answer_all);
  checkpoints_.wait();
  auto ended = ended_after(steps_done);
  // The process' own peak counts until here, as monitors tell it.
  peak.host = monitor::peak_resident_bytes();
  peaks_ = exchange_peaks(peak, *session_.communicator);
  ended.summary = exchange_summary(observers_.summary(ended), *session_.communicator);
  folder_.write_summary(started_, ended, statistics_, peaks_, session_.engine->host_update_times(),
                        checkpoints_.summary(), evaluations_.shown_answers());
  observers_.run_ended(ended);
  session_.communicator->trace(nullptr);
  return ended;
}

// All that is known at the end, except for what monitors say of it.
monitor::RunEnded Loop::ended_after(std::int64_t steps_done) const {
  monitor::RunEnded ended;
  ended.steps = steps_done;
  ended.samples = statistics_.samples;
  ended.tokens = statistics_.tokens;
  ended.train_runtime_s = statistics_.train_runtime_s;
  ended.runtime_s = seconds_since(begin_);
  ended.mean_loss = statistics_.mean_loss();
  ended.epochs = job().samples.plan.epoch_progress(steps_done);
  ended.weights = weights_;
  if (checkpoints_.best()) ended.best = checkpoints_.best()->path.string();
  return ended;
}

// Spans of units cost nothing where no monitor asks for any.
void Loop::trace() {
  auto tracers = observers_.tracers();
  if (!tracers.empty()) pipeline_.step().trace(std::make_shared<step::Tracers>(tracers));
  if (started_.world_size > 1) tracers.push_back(pipeline_.clock());
  if (!tracers.empty()) session_.communicator->trace(std::make_shared<step::Tracers>(std::move(tracers)));
}

// Returns the number of steps done since the run's beginning.
std::int64_t Loop::run_steps() {
  const auto steps = job().samples.plan.steps;
  auto step = started_.first_step;
  if (step < steps) pipeline_.begin(step);
  // Stopped inside that evaluation: the checkpoint that it left has no metric, by which this step may be the best.
  if (evaluations_.due(step) && !statistics_.evaluation_after(step)) pass_boundary(step);
  while (step < steps && !stopped_ && stopped_early().empty()) {
    if (!pipeline_.take(step)) {
      stopped_ = true;
      break;
    }
    pass_boundary(++step);
  }
  if (!stopped_early().empty()) pipeline_.end_early();
  pipeline_.drain();
  return step;
}

// What is due after a step.
void Loop::pass_boundary(std::int64_t steps_done) {
  if (evaluations_.due(steps_done)) {
    pipeline_.drain();
    evaluate(steps_done, &Evaluations::run);
    pipeline_.leave_out();
    judge_progress(steps_done);
  }
  if (stopped_) return;  // save_at_end saves, and the run evaluates when it is resumed
  if (replicas_ && replicas_->due(steps_done, started_.first_step)) replicas_->run(steps_done);
  checkpoints_.poll();
  const Boundary boundary{steps_done, pipeline_.agreed().save, statistics_.evaluation_after(steps_done)};
  if (checkpoints_.wants(boundary)) save(boundary);
}

// Ranks have the same evaluations, and after a resume those of the run's beginning.
void Loop::judge_progress(std::int64_t steps_done) {
  if (stopped_ || steps_done == job().samples.plan.steps) return;
  const auto& metric = job().config.checkpoint->metric;
  const auto why =
      setup::reason_to_stop(*job().config.train, metric, job().samples.lowest_is_best, statistics_.values_of(metric));
  if (!why.empty())
    statistics_.stopped_early = cat("after step ", steps_done, " of ", job().samples.plan.steps, ": ", why);
}

void Loop::evaluate(std::int64_t steps_done, void (Evaluations::*what)(std::int64_t)) {
  try {
    pipeline_.step().during_evaluation(steps_done, [&] { (evaluations_.*what)(steps_done); });
  } catch (const step::Stopped&) {
    pipeline_.stop();
    stopped_ = true;
  }
}

void Loop::save(const Boundary& boundary) {
  pipeline_.drain();
  pipeline_.step().hooks().before_save(boundary.steps_done);
  if (replicas_ && boundary.steps_done > started_.first_step) replicas_->run(boundary.steps_done);
  statistics_.runtime_s = seconds_since(begin_);
  statistics_.skipped_in_a_row = pipeline_.nonfinite().in_a_row();
  checkpoints_.save(boundary, statistics_);
  pipeline_.leave_out();
}

// A person who has interrupted any rank may want to continue later: the ranks agree to save, though nothing else asks.
void Loop::begin_saving_if_interrupted(std::int64_t steps_done) {
  if (!stopped_ || checkpoints_.on() || steps_done == 0 || !job().config.checkpoint->on_interrupt) return;
  const auto reasons = session_.communicator->exchange(stop_.reason());
  if (std::find(reasons.begin(), reasons.end(), "SIGINT") != reasons.end()) checkpoints_.begin_if_room();
}

// A run that stops leaves a checkpoint to resume from, and no weights besides. After a second request only what is
// under way is finished.
void Loop::save_at_end(std::int64_t steps_done) {
  if (agreed().hurry) return;
  begin_saving_if_interrupted(steps_done);
  if (checkpoints_.on() && !checkpoints_.is_saved(steps_done))
    save({steps_done, false, statistics_.evaluation_after(steps_done)});
  if (stopped_) checkpoints_.wait();
  if (!job().config.run->save_weights || (stopped_ && checkpoints_.on())) return;
  pipeline_.step().during_evaluation(steps_done, [&] { weights_ = checkpoints_.save_weights(steps_done).string(); });
  if (stopped_) return;
  model_ = write_final_model(
      {job().plugins, job().samples.tokenizer, *job().config.train, session_.units, answer_ends(job().samples)},
      weights_, folder_.path(), *session_.communicator);
  const auto saves = checkpoints_.summary();
  if (saves && saves->weights_step != steps_done)
    model_ = cat("the final weights are those of the best evaluation, after step ", saves->weights_step, "\n", model_);
}

}  // namespace capstan::train
