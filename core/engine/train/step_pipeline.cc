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

StepPipeline::StepPipeline(step::Session& session, const std::filesystem::path& folder, Observers& observers,
                           std::function<step::Requests()> requests)
    : job_(*session.job),
      device_(session.device),
      feed_(job_),
      control_(session.world_host, *session.communicator, job_.topology.represents_coordinate()),
      step_(session),
      nonfinite_(session, step_.updates().loss_scale(), folder),
      observers_(observers),
      requests_(std::move(requests)),
      clock_(std::make_shared<CollectiveClock>(session.device)) {}

void StepPipeline::begin(std::int64_t first_step) {
  next_ = feed_.draw(first_step);
  control_.start(next_, requests_(), {});
  leave_out();
}

void StepPipeline::leave_out() {
  CAPSTAN_ASSERT(!under_way_);
  clock_->forget();
  last_end_ = Clock::now();
  if (!device_.is_cpu()) last_end_on_gpu_ = std::make_shared<c10::Event>(timed_event(device_));
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
  for (auto& value : slowest_rank(totals.collective_s)) event.values.push_back(std::move(value));
  return event;
}

bool StepPipeline::take(std::int64_t step) {
  const auto totals = control_.wait();
  agreed_ = totals.requests;
  if (agreed_.stop || agreed_.time_is_up) return false;
  const double lr = setup::learning_rate(*job_.config.optimizer, step, plan().steps);
  auto event = event_of(step, totals, lr);
  auto input = std::move(next_);
  auto numbers = step_.run(input, totals.objective, lr);
  numbers.start_copy();
  const auto arrived = device_.is_cpu() ? nullptr : std::make_shared<c10::Event>(timed_event(device_));
  const auto divisor = strategy::divisor(totals.objective.at(job_.plugins.minimised->base()));
  const std::int64_t following = step + 1;
  if (following < plan().steps) next_ = feed_.draw(following);
  report();
  under_way_ = UnderWay{std::move(event), std::move(input), std::move(numbers), divisor, arrived};
  if (device_.is_cpu()) report();
  if (following < plan().steps) control_.start(next_, requests_(), observers_.values(), clock_->next_step());
  return true;
}

void StepPipeline::end_early() {
  if (control_.is_under_way()) (void)control_.wait();
}

// The sums for the next step, which were started before, may not say so.
void StepPipeline::stop() {
  end_early();
  agreed_.stop = true;
}

// Tells the observers of the step that is under way, if there is one.
void StepPipeline::report() {
  if (!under_way_) return;
  auto& [event, input, numbers, divisor, arrived] = *under_way_;
  if (arrived) arrived->synchronize();
  event.grad_norm = numbers.grad_norm();
  event.loss = numbers.loss_sum() / divisor;
  if (step_.updates().loss_scale().on()) event.loss_scale = numbers.loss_scale();
  event.skipped = numbers.skipped();
  event.auxiliary_loss = numbers.auxiliary_loss();
  for (auto& figure : numbers.figure_values()) event.values.push_back(std::move(figure));
  step::add_expert_load(event.values, numbers.tokens_by_expert());
  if (event.target_tokens == 0) {
    event.loss = std::numeric_limits<double>::quiet_NaN();
    log::info(cat("step ", event.step, " has no sample with a target: it updates nothing"));
  } else if (event.skipped) {
    nonfinite_.bad(event, numbers, input);
  } else {
    nonfinite_.good();
  }
  event.step_time_s = arrived ? last_end_on_gpu_->elapsedTime(*arrived) / 1000 : seconds_since(last_end_);
  last_end_ = Clock::now();
  last_end_on_gpu_ = arrived;
  longest_step_s_ = std::max(longest_step_s_, event.step_time_s);
  observers_.step_ended(event);
  if (!event.skipped) step_.hooks().loss_known(event.step, event.loss);
  under_way_.reset();
}

}  // namespace capstan::train
