#include "train/loop.h"

#include <capstan/base/log.h>
#include <capstan/base/text.h>
#include <capstan/plugin/guard.h>

#include <algorithm>
#include <cmath>

#include "assembly/assemble.h"
#include "base/clock.h"
#include "session/adapter_folder.h"
#include "session/model_folder.h"
#include "session/weights.h"
#include "train/expert_load.h"
#include "train/memory.h"
#include "train/of_job.h"
#include "train/schedule.h"

namespace capstan::train {
namespace {

// For what follows the last save: closing files, srun's and the job script's ends.
constexpr double ending_margin_s = 15;
// Of a rank on a file system that many others write to.
constexpr double unmeasured_bytes_per_s = 2e8;

}  // namespace

Loop::Loop(const session::Job& job, session::Session& session, RunFolder& folder, bool output_is_terminal,
           const inference::Stop& stop, const SaveSetting& setting)
    : job_(job),
      session_(session),
      folder_(folder),
      stop_(stop),
      feed_(feed_of(job)),
      control_(session.world_host, *session.communicator, job.topology.speaks_for_coordinate()),
      agreement_(session.world_host, stop, [this] { return time_is_up(); }),
      step_(step_of(job, session)),
      nonfinite_(nonfinite_setting(job, folder.path()), loaded_model(session), step_.updates().loss_scale()),
      evaluator_(evaluator_of(job, session, feed_)),
      attempt_(setting.attempt),
      saving_(saved_run(job, session), step_.updates(), *session.communicator, folder.path(), setting) {
  evaluator_.stops_by(agreement_);
  step_.before_update([this] { saving_.before_update(); });
  const auto& world = session.communicator->world();
  started_.name = job.config.name;
  started_.folder = folder.path().string();
  started_.rank = world.rank;
  started_.world_size = world.size;
  started_.data_parallel_size = static_cast<int>(job.topology.batch.data_parallel_size);
  started_.backend = session.communicator->backend(session.device);
  started_.device = job.config.device;
  started_.parameters = session.engine->parameters();
  started_.trainable_parameters = session.engine->trainable_parameters();
  started_.steps = job.samples.plan.steps;
  started_.steps_per_epoch = job.samples.plan.steps_per_epoch;
  started_.global_batch = job.topology.batch.global_batch;
  started_.micro_batch = job.topology.batch.micro_batch;
  started_.accumulation = job.topology.batch.accumulation;
  started_.output_is_terminal = output_is_terminal;
  const bool goes_on = setting.resume && setting.resume->reader;
  if (goes_on) resume(*setting.resume->reader);
  // Only now all of the checkpoint was read: what is cut before is lost if it cannot be.
  if (job.config.checkpoint->resume == "auto" && goes_on) folder.go_on_behind(started_.first_step);
  if (job.config.checkpoint->resume == "auto" && !goes_on) folder.begin_anew();
}

void Loop::resume(checkpoint::Reader& reader) {
  statistics_ = resume_from(reader, saving_.run(), step_.updates());
  earlier_runtime_s_ = statistics_.runtime_s;
  nonfinite_.set_in_a_row(statistics_.skipped_in_a_row);
  started_.first_step = reader.meta().step;
}

template <class Call>
void Loop::each_monitor(const char* phase, const Call& call) {
  for (const auto& made : job_.plugins.monitors) plugin::guard(made.name, phase, [&] { call(*made.object); });
}

void Loop::start_run() {
  started_.hosts = session_.communicator->exchange(session_.communicator->world().host);
  each_monitor("run_started", [&](monitor::Monitor& monitor) { monitor.run_started(started_); });
  if (started_.first_step == job_.samples.plan.steps) return;  // it goes on behind its last step
  next_ = feed_.draw(started_.first_step);
  control_.start(next_, wishes(), {});
}

// Before the first step is over nobody knows what one takes, and a run that stops there gets nowhere.
bool Loop::time_is_up() const {
  return step_s_ > 0 && stop_.time_is_up(std::chrono::duration<double>(2 * step_s_ + save_s() + ending_margin_s));
}

inference::Wishes Loop::wishes() const {
  inference::Wishes mine;
  mine.stop = stop_.asked();
  mine.hurry = stop_.asks() > 1;
  mine.time_is_up = time_is_up();
  mine.save = saving_.clock_asks();
  return mine;
}

// How long the last save may take: by those before, else by what there is to write.
double Loop::save_s() const {
  if (saving_.needs_s() > 0) return 1.5 * saving_.needs_s();
  if (!saving_.on() && !job_.config.run->save_weights) return 0;
  double bytes = 0;
  for (const auto& footprint : job_.prediction.footprints) bytes += static_cast<double>(footprint.bytes);
  return bytes / unmeasured_bytes_per_s;
}

monitor::RunEnded Loop::run() {
  begin_ = Clock::now();
  start_run();
  const MemoryWatch memory(session_.device);
  last_report_ = Clock::now();
  std::int64_t step = started_.first_step;
  // Stopped inside that evaluation: the checkpoint that it left has no metric, by which this step may be the best.
  if (step > 0 && evaluates_after(step - 1) && !is_evaluated(step)) pass_boundary(step);
  for (; step < job_.samples.plan.steps && !stopped_; ++step) {
    take_step(step);
    if (stopped_) break;
    pass_boundary(step + 1);
  }
  finish_steps(0);
  const auto peaks = exchange_peaks(memory.peak(), *session_.communicator);
  ended_.steps = step;
  save_at_end(step);
  if (!stopped_) answer_all(step);
  publish(saving_.wait());
  ended_.samples = statistics_.samples;
  ended_.tokens = statistics_.tokens;
  ended_.train_runtime_s = statistics_.train_runtime_s;
  ended_.runtime_s = runtime_s();
  ended_.mean_loss = statistics_.mean_loss();
  ended_.epochs = job_.samples.plan.epoch_progress(step);
  if (saving_.best()) ended_.best = saving_.best()->path;
  folder_.summary(started_, ended_, statistics_, peaks, session_.engine->host_update_times(), saving_, answers_);
  each_monitor("run_ended", [&](monitor::Monitor& monitor) { monitor.run_ended(ended_); });
  return ended_;
}

// What is due behind a step.
void Loop::pass_boundary(std::int64_t steps_done) {
  Boundary boundary{steps_done, clock_save_, nullptr};
  if (evaluates_after(steps_done - 1)) {
    finish_steps(0);
    evaluate(steps_done);
    if (stopped_) return;  // save_at_end saves, and the run evaluates when it goes on
    boundary.evaluation = &statistics_.evaluations.back();
  }
  save_at(boundary);
}

double Loop::runtime_s() const { return earlier_runtime_s_ + seconds_since(begin_); }

void Loop::save_at(const Boundary& boundary) {
  publish(saving_.poll());
  if (saving_.wants(boundary)) save(boundary);
}

// Step times leave out how long this takes: it is told of each save by itself.
void Loop::save(const Boundary& boundary) {
  finish_steps(0);
  const auto begin = Clock::now();
  statistics_.runtime_s = runtime_s();
  statistics_.skipped_in_a_row = nonfinite_.in_a_row();
  publish(saving_.save(boundary, statistics_));
  if (!job_.config.checkpoint->asynchronous) publish(saving_.wait());
  paused_s_ += seconds_since(begin);
}

// A run that stops leaves a checkpoint, and no weights besides: it is to go on. After a second request only what is
// under way is finished.
void Loop::save_at_end(std::int64_t steps_done) {
  if (agreed_.hurry) return;
  if (saving_.on() && !saving_.is_saved(steps_done)) {
    const auto& evaluations = statistics_.evaluations;
    const bool is_evaluated = !evaluations.empty() && evaluations.back().step == steps_done;
    save({steps_done, false, is_evaluated ? &evaluations.back() : nullptr});
  }
  if (stopped_) publish(saving_.wait());
  if (!job_.config.run->save_weights || (stopped_ && saving_.on())) return;
  const auto weights = folder_.path() / "weights";
  save_weights(saving_.run(), weights, *session_.world_host, steps_done, attempt_);
  ended_.weights = weights.string();
  if (!stopped_) model_ = save_model(ended_.weights);
}

// One step; the next one's samples are drawn, and their sums started, while the device works on this one.
void Loop::take_step(std::int64_t step) {
  const auto totals = control_.wait();
  if (totals.wishes.stop || totals.wishes.time_is_up) {
    stopped_ = true;
    agreed_ = totals.wishes;
    return;
  }
  clock_save_ = totals.wishes.save;
  auto input = std::move(next_);
  const double lr = learning_rate(*job_.config.optimizer, step, job_.samples.plan.steps);
  InFlight flight;
  flight.event.step = step;
  flight.event.steps = job_.samples.plan.steps;
  flight.event.epoch = job_.samples.plan.epoch_of(step);
  flight.event.epoch_progress = job_.samples.plan.epoch_progress(step + 1);
  flight.event.lr = lr;
  flight.event.samples = totals.samples;
  flight.event.consumed_samples = job_.samples.plan.consumed(step + 1);
  flight.event.tokens = totals.real_tokens;
  flight.event.padded_tokens = totals.padded_tokens;
  flight.event.target_tokens = totals.target_tokens;
  flight.event.values = totals.monitors;
  flight.result = step_.run(input, totals.target_tokens, lr);
  if (session_.device.is_cpu()) {
    flight.host = flight.result.numbers;
  } else {
    flight.host = at::empty(flight.result.numbers.sizes(), at::TensorOptions().dtype(at::kDouble).pinned_memory(true));
    flight.host.copy_(flight.result.numbers, /*non_blocking=*/true);
    flight.arrived = std::make_shared<c10::Event>(session_.device.type());
    flight.arrived->record(c10::impl::VirtualGuardImpl(session_.device.type()).getStream(session_.device));
  }
  flight.input = std::move(input);
  in_flight_.push_back(std::move(flight));
  const std::int64_t following = step + 1;
  if (following < job_.samples.plan.steps) next_ = feed_.draw(following);
  finish_steps(session_.device.is_cpu() ? 0 : 1);
  if (following < job_.samples.plan.steps) control_.start(next_, wishes(), monitor_values_);
}

void Loop::finish_steps(std::size_t leave) {
  while (in_flight_.size() > leave) {
    report(in_flight_.front());
    in_flight_.pop_front();
  }
}

void Loop::report(InFlight& step) {
  if (step.arrived) step.arrived->synchronize();
  const auto* numbers = step.host.const_data_ptr<double>();
  auto& event = step.event;
  event.grad_norm = std::sqrt(numbers[0]);
  event.loss = numbers[1] / static_cast<double>(std::max<std::int64_t>(1, event.target_tokens));
  if (step_.updates().loss_scale().on()) event.loss_scale = numbers[2];
  event.skipped = numbers[3] != 0;
  if (step.result.has_auxiliary) event.auxiliary_loss = numbers[4];
  add_expert_load(event.values, step.host.narrow(0, 5, step.host.numel() - 5), step.result.expert_layers);
  if (event.skipped) {
    nonfinite_.bad(event, step.result, step.input);
  } else {
    nonfinite_.good();
  }
  event.step_time_s = seconds_since(last_report_) - paused_s_;
  last_report_ = Clock::now();
  paused_s_ = 0;
  step_s_ = std::max(step_s_, event.step_time_s);
  statistics_.add(event);
  folder_.step(event);
  monitor_values_.clear();
  each_monitor("step_ended", [&](monitor::Monitor& monitor) {
    auto values = monitor.step_ended(event);
    monitor_values_.insert(monitor_values_.end(), values.begin(), values.end());
  });
}

bool Loop::is_evaluated(std::int64_t steps_done) const {
  return std::any_of(statistics_.evaluations.begin(), statistics_.evaluations.end(),
                     [&](const auto& evaluation) { return evaluation.step == steps_done; });
}

bool Loop::evaluates_after(std::int64_t step) const {
  if (!job_.samples.eval) return false;
  const auto done = step + 1;
  if (done == job_.samples.plan.steps) return true;
  const auto every = job_.config.train->eval_every;
  return every > 0 ? done % every == 0 : job_.samples.plan.ends_epoch(done);
}

// All ranks know it now; the sum for the next step, which was started before, may not say so.
void Loop::stop_between_steps() {
  if (control_.is_under_way()) (void)control_.wait();
  stopped_ = true;
  agreed_.stop = true;
}

void Loop::evaluate(std::int64_t steps_done) {
  const auto begin = Clock::now();
  inference::Evaluation result;
  try {
    result = evaluator_.loss(*job_.samples.eval);
  } catch (const inference::Stopped&) {
    return stop_between_steps();
  }
  monitor::EvalEnded event;
  event.step = steps_done;
  event.epoch_progress = job_.samples.plan.epoch_progress(steps_done);
  event.split = "eval";
  event.loss = result.loss;
  event.samples = result.samples;
  event.runtime_s = result.runtime_s;
  publish(event);
  paused_s_ += seconds_since(begin);
}

void Loop::answer_all(std::int64_t steps_done) {
  try {
    answer(job_.samples.train.get(), "train", job_.config.train->generate_train_samples, steps_done);
    answer(job_.samples.eval.get(), "eval", job_.config.train->generate_samples, steps_done);
  } catch (const inference::Stopped&) {
    stop_between_steps();
  }
}

void Loop::answer(const data::DataSource* source, const std::string& split, std::int64_t samples,
                  std::int64_t steps_done) {
  if (!source || samples == 0) return;
  const auto result = evaluator_.answers(*source, samples);
  monitor::EvalEnded event;
  event.step = steps_done;
  event.epoch_progress = job_.samples.plan.epoch_progress(steps_done);
  event.split = split;
  event.samples = result.samples;
  event.runtime_s = result.runtime_s;
  event.scores = result.scores;
  folder_.predictions(split, result.answers);
  for (std::size_t i = 0; i < result.answers.size() && i < 5; ++i) answers_.push_back(result.answers[i]);
  publish(event);
}

void Loop::publish(const monitor::EvalEnded& event) {
  statistics_.evaluations.push_back(event);
  folder_.evaluation(event);
  each_monitor("eval_ended", [&](monitor::Monitor& monitor) { monitor.eval_ended(event); });
}

void Loop::publish(const std::optional<monitor::CheckpointSaved>& saved) {
  if (!saved) return;
  folder_.checkpoint(*saved);
  each_monitor("checkpoint_saved", [&](monitor::Monitor& monitor) { monitor.checkpoint_saved(*saved); });
}

// Small enough for one rank to write.
std::string Loop::save_adapters(const std::string& weights) {
  const auto& units = session_.units;
  if (const auto reason = session::not_peft(job_.plugins, units); !reason.empty())
    return "no adapter folder for peft: " + reason;
  std::string words;
  std::string fault;
  try {
    if (job_.topology.rank == 0)
      words =
          session::write_adapter_folder(job_.plugins, units, *session::open_boxes(weights), folder_.path() / "adapter");
  } catch (const Error& error) {
    fault = cat("x", error.what());
  }
  for (const auto& text : session_.communicator->exchange(fault)) {
    if (!text.empty()) throw Error(cat("the adapter's folder was not written: ", text.substr(1)));
  }
  return words;
}

std::string Loop::save_model(const std::string& weights) {
  const auto& units = session_.units;
  if (!session::adapters_of(units).empty()) return save_adapters(weights);
  if (const auto reason = session::not_exportable(job_.plugins, units); !reason.empty())
    return "no model folder for transformers: " + reason;
  const auto values = session::open_boxes(weights);
  const session::ModelToWrite model{job_.plugins, job_.samples.tokenizer, *job_.config.train};
  return session::written_text(
      session::write_model_folder(model, units, *values, folder_.path() / "model", {}, *session_.communicator));
}

}  // namespace capstan::train
