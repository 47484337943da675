#include "train/loop.h"

#include <capstan/base/log.h>
#include <capstan/base/text.h>
#include <capstan/checkpoint/boxes.h>
#include <capstan/plugin/guard.h>

#include <algorithm>
#include <cmath>

#include "train/expert_load.h"
#include "train/memory.h"
#include "train/schedule.h"

namespace capstan::train {
namespace {

// For what follows the last save: closing files, srun's and the job script's ends.
constexpr double ending_margin_s = 15;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

Loop::Loop(const setup::Job& job, setup::Session& session, RunFolder& folder, bool output_is_terminal, const Stop& stop)
    : job_(job),
      session_(session),
      folder_(folder),
      stop_(stop),
      feed_(job, job.mesh.position(job.rank, layout::data_axes)),
      control_(session.world_host, *session.communicator, speaks_for_coordinate(job)),
      step_(job, session),
      nonfinite_(job, session, step_.updates().loss_scale(), folder.path()),
      evaluator_(job, session, feed_) {
  const auto& world = session.communicator->world();
  started_.name = job.name;
  started_.folder = folder.path().string();
  started_.rank = world.rank;
  started_.world_size = world.size;
  started_.data_parallel_size = static_cast<int>(job.batch.data_parallel_size);
  started_.backend = session.communicator->backend(session.device);
  started_.device = job.device;
  started_.parameters = session.engine->parameters();
  started_.trainable_parameters = session.engine->trainable_parameters();
  started_.steps = job.plan.steps;
  started_.steps_per_epoch = job.plan.steps_per_epoch;
  started_.global_batch = job.batch.global_batch;
  started_.micro_batch = job.batch.micro_batch;
  started_.accumulation = job.batch.accumulation;
  started_.output_is_terminal = output_is_terminal;
}

template <class Call>
void Loop::each_monitor(const char* phase, const Call& call) {
  for (const auto& made : job_.monitors) plugin::guard(made.name, phase, [&] { call(*made.object); });
}

void Loop::start_run() {
  started_.hosts = session_.communicator->exchange(session_.communicator->world().host);
  each_monitor("run_started", [&](monitor::Monitor& monitor) { monitor.run_started(started_); });
  next_ = feed_.draw(0);
  control_.start(next_, wishes(), {});
}

// Before the first step is over nobody knows what one takes, and a run that stops there gets nowhere.
Wishes Loop::wishes() const {
  Wishes mine;
  mine.stop = stop_.asked();
  mine.hurry = stop_.asks() > 1;
  mine.time_is_up = step_s_ > 0 && stop_.time_is_up(std::chrono::duration<double>(2 * step_s_ + ending_margin_s));
  return mine;
}

monitor::RunEnded Loop::run() {
  const auto begin = Clock::now();
  start_run();
  const MemoryWatch memory(session_.device);
  last_report_ = Clock::now();
  std::int64_t step = 0;
  for (; step < job_.plan.steps && !stopped_; ++step) {
    take_step(step);
    if (stopped_) break;
    if (evaluates_after(step)) {
      finish_steps(0);
      evaluate(step + 1);
    }
  }
  finish_steps(0);
  const auto peaks = exchange_peaks(memory.peak(), *session_.communicator);
  ended_.steps = step;
  if (!stopped_) {
    answer(job_.train_data.get(), "train", job_.train->generate_train_samples, step);
    answer(job_.eval_data.get(), "eval", job_.train->generate_samples, step);
  }
  if (job_.run->save_weights) ended_.weights = save_weights(step);
  ended_.runtime_s = seconds_since(begin);
  ended_.mean_loss = finite_losses_ > 0 ? loss_total_ / static_cast<double>(finite_losses_) : 0.0;
  ended_.epochs = job_.plan.epoch_progress(step);
  folder_.summary(started_, ended_, first_loss_, last_loss_, peaks, session_.engine->host_update_times(), evaluations_,
                  answers_);
  each_monitor("run_ended", [&](monitor::Monitor& monitor) { monitor.run_ended(ended_); });
  return ended_;
}

// One step; the next one's samples are drawn, and their sums started, while the device works on this one.
void Loop::take_step(std::int64_t step) {
  const auto totals = control_.wait();
  if (totals.wishes.stop || totals.wishes.time_is_up) {
    stopped_ = true;
    agreed_ = totals.wishes;
    return;
  }
  auto input = std::move(next_);
  const double lr = learning_rate(*job_.optimizer, step, job_.plan.steps);
  InFlight flight;
  flight.event.step = step;
  flight.event.steps = job_.plan.steps;
  flight.event.epoch = job_.plan.epoch_of(step);
  flight.event.epoch_progress = job_.plan.epoch_progress(step + 1);
  flight.event.lr = lr;
  flight.event.samples = totals.samples;
  flight.event.consumed_samples = job_.plan.consumed(step + 1);
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
  if (nonfinite_.wants_batch()) flight.input = std::move(input);
  in_flight_.push_back(std::move(flight));
  const std::int64_t following = step + 1;
  if (following < job_.plan.steps) next_ = feed_.draw(following);
  finish_steps(session_.device.is_cpu() ? 0 : 1);
  if (following < job_.plan.steps) control_.start(next_, wishes(), monitor_values_);
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
  add_expert_load(event.values, step.host.narrow(0, 4, step.host.numel() - 4), step.result.expert_layers);
  if (event.skipped) {
    nonfinite_.bad(event, step.result, step.input);
  } else {
    nonfinite_.good();
  }
  event.step_time_s = seconds_since(last_report_) - paused_s_;
  last_report_ = Clock::now();
  paused_s_ = 0;
  step_s_ = std::max(step_s_, event.step_time_s);
  ended_.train_runtime_s += event.step_time_s;
  ended_.samples += event.samples;
  ended_.tokens += event.tokens;
  if (std::isfinite(event.loss)) {
    loss_total_ += event.loss;
    ++finite_losses_;
  }
  if (event.step == 0) first_loss_ = event.loss;
  last_loss_ = event.loss;
  folder_.step(event);
  monitor_values_.clear();
  each_monitor("step_ended", [&](monitor::Monitor& monitor) {
    auto values = monitor.step_ended(event);
    monitor_values_.insert(monitor_values_.end(), values.begin(), values.end());
  });
}

bool Loop::evaluates_after(std::int64_t step) const {
  if (!job_.eval_data) return false;
  const auto done = step + 1;
  if (done == job_.plan.steps) return true;
  return done % (job_.train->eval_every > 0 ? job_.train->eval_every : job_.plan.steps_per_epoch) == 0;
}

void Loop::evaluate(std::int64_t steps_done) {
  const auto begin = Clock::now();
  const auto result = evaluator_.loss(*job_.eval_data);
  monitor::EvalEnded event;
  event.step = steps_done;
  event.epoch_progress = job_.plan.epoch_progress(steps_done);
  event.split = "eval";
  event.loss = result.loss;
  event.samples = result.samples;
  event.runtime_s = result.runtime_s;
  publish(event);
  paused_s_ += seconds_since(begin);
}

void Loop::answer(const data::DataSource* source, const std::string& split, std::int64_t samples,
                  std::int64_t steps_done) {
  if (!source || samples == 0) return;
  const auto result = evaluator_.answers(*source, samples);
  monitor::EvalEnded event;
  event.step = steps_done;
  event.epoch_progress = job_.plan.epoch_progress(steps_done);
  event.split = split;
  event.samples = result.samples;
  event.runtime_s = result.runtime_s;
  event.scores = result.scores;
  for (std::size_t i = 0; i < result.answers.size() && i < 5; ++i) answers_.push_back(result.answers[i]);
  publish(event);
}

void Loop::publish(const monitor::EvalEnded& event) {
  evaluations_.push_back(event);
  folder_.evaluation(event);
  each_monitor("eval_ended", [&](monitor::Monitor& monitor) { monitor.eval_ended(event); });
}

std::string Loop::save_weights(std::int64_t steps_done) {
  const auto folder = folder_.path() / "weights";
  const auto& world = session_.communicator->world();
  std::vector<checkpoint::SavedBox> boxes;
  for (const auto& stored : session_.engine->stored_boxes()) {
    if (stored.counts) boxes.push_back({stored.record, stored.box, stored.value});
  }
  if (world.rank == 0) checkpoint::begin_boxes(folder);
  session_.world_host->barrier("barrier before saving weights");
  const auto pieces = session_.communicator->exchange(checkpoint::save_boxes(folder, world.rank, world.size, boxes));
  if (world.rank == 0) checkpoint::finish_boxes(folder, pieces, {steps_done});
  session_.world_host->barrier("barrier after saving weights");
  return folder.string();
}

}  // namespace capstan::train
