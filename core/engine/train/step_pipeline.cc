#include "train/step_pipeline.h"

#include <capstan/base/clock.h>
#include <capstan/base/error.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "setup/schedule.h"

namespace capstan::train {

StepPipeline::StepPipeline(session::Session& session, const std::filesystem::path& folder,
                           observe::Observers& observers, std::function<step::Wishes()> wishes)
    : job_(*session.job),
      device_(session.device),
      feed_(job_),
      control_(session.world_host, *session.communicator, job_.topology.speaks_for_coordinate()),
      step_(session),
      nonfinite_(session, step_.updates().loss_scale(), folder),
      observers_(observers),
      wishes_(std::move(wishes)),
      clock_(std::make_shared<observe::CollectiveClock>(session.device)) {}

void StepPipeline::begin(std::int64_t first_step) {
  next_ = feed_.draw(first_step);
  control_.start(next_, wishes_(), {});
  leave_out();
}

void StepPipeline::leave_out() {
  CAPSTAN_ASSERT(under_way_.empty());
  clock_->forget();
  last_end_ = Clock::now();
  if (!device_.is_cpu()) last_end_on_gpu_ = std::make_shared<c10::Event>(observe::timed_event(device_));
}

monitor::StepEnded StepPipeline::event_of(std::int64_t step, const StepTotals& totals, double lr) const {
  monitor::StepEnded event;
  event.step = step;
  event.steps = plan().steps;
  event.epoch = plan().epoch_of(step);
  event.epoch_progress = plan().epoch_progress(step + 1);
  event.lr = lr;
  event.samples = totals.samples;
  event.consumed_samples = plan().consumed(step + 1);
  event.tokens = totals.real_tokens;
  event.padded_tokens = totals.padded_tokens;
  event.target_tokens = totals.target_tokens;
  event.values = totals.monitors;
  if (feed_.skips_no_target())
    event.values.emplace_back("samples_without_target", static_cast<double>(totals.without_target));
  const auto& sources = job_.plugins.data_parts.form.sources;
  const auto tokens = strategy::divisor(static_cast<double>(totals.real_tokens));
  for (std::size_t i = 0; i < sources.size(); ++i)
    event.values.emplace_back("share_" + sources[i], totals.sources.at(i) / tokens);
  for (auto& value : observe::slowest_rank(totals.collective_s)) event.values.push_back(std::move(value));
  return event;
}

bool StepPipeline::take(std::int64_t step) {
  const auto totals = control_.wait();
  agreed_ = totals.wishes;
  if (agreed_.stop || agreed_.time_is_up) return false;
  const double lr = setup::learning_rate(*job_.config.optimizer, step, plan().steps);
  UnderWay taken{event_of(step, totals, lr), {}, std::move(next_), 1, {}, {}};
  taken.result = step_.run(taken.input, totals.objective, lr);
  taken.divisor = strategy::divisor(totals.objective.at(job_.plugins.minimised->base()));
  // A mean over nothing is none: the loss of a source that the step has no sample of.
  const auto& figures = job_.plugins.minimised->plan().figures;
  const auto first = taken.result.figures.end() - std::ssize(figures);
  for (std::size_t i = 0; i < figures.size(); ++i) {
    if (totals.objective.at(figures[i].count) == 0) (first + static_cast<std::ptrdiff_t>(i))->clear();
  }
  const auto& numbers = taken.result.numbers.tensor();
  if (device_.is_cpu()) {
    taken.host = numbers;
  } else {
    taken.host = at::empty(numbers.sizes(), at::TensorOptions().dtype(at::kDouble).pinned_memory(true));
    taken.host.copy_(numbers, /*non_blocking=*/true);
    taken.arrived = std::make_shared<c10::Event>(observe::timed_event(device_));
  }
  under_way_.push_back(std::move(taken));
  const std::int64_t following = step + 1;
  if (following < plan().steps) next_ = feed_.draw(following);
  finish(device_.is_cpu() ? 0 : 1);
  if (following < plan().steps) control_.start(next_, wishes_(), observers_.values(), clock_->next_step());
  return true;
}

void StepPipeline::drain() { finish(0); }

void StepPipeline::end_early() {
  if (control_.is_under_way()) (void)control_.wait();
}

// The sums for the next step, which were started before, may not say so.
void StepPipeline::stop() {
  end_early();
  agreed_.stop = true;
}

void StepPipeline::finish(std::size_t leave) {
  while (under_way_.size() > leave) {
    report(under_way_.front());
    under_way_.pop_front();
  }
}

void StepPipeline::report(UnderWay& step) {
  if (step.arrived) step.arrived->synchronize();
  const auto metrics = step.result.numbers.read(step.host);
  auto& event = step.event;
  event.grad_norm = metrics.grad_norm;
  event.loss = metrics.loss_sum / step.divisor;
  if (step_.updates().loss_scale().on()) event.loss_scale = metrics.loss_scale;
  event.skipped = metrics.skipped;
  if (step.result.has_auxiliary) event.auxiliary_loss = metrics.auxiliary_loss;
  for (std::size_t i = 0; i < metrics.figures.size(); ++i) {
    const auto& name = step.result.figures[i];
    if (!name.empty()) event.values.emplace_back(name, metrics.figures[i]);
  }
  step::add_expert_load(event.values, metrics.expert_tokens);
  if (event.target_tokens == 0) {
    event.loss = std::numeric_limits<double>::quiet_NaN();
    log::info(cat("step ", event.step, " has no sample with a target: it updates nothing"));
  } else if (event.skipped) {
    nonfinite_.bad(event, step.result, step.input);
  } else {
    nonfinite_.good();
  }
  event.step_time_s = step.arrived ? last_end_on_gpu_->elapsedTime(*step.arrived) / 1000 : seconds_since(last_end_);
  last_end_ = Clock::now();
  last_end_on_gpu_ = step.arrived;
  longest_step_s_ = std::max(longest_step_s_, event.step_time_s);
  observers_.step_ended(event);
  if (!event.skipped) step_.hooks().loss_known(event.step, event.loss);
}

}  // namespace capstan::train
