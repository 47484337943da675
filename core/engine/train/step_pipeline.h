#pragma once
#include <capstan/base/export.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "step/feed.h"
#include "step/step.h"
#include "train/collective_clock.h"
#include "train/control.h"
#include "train/nonfinite.h"
#include "train/observers.h"

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// The steps of a run, one after the other. While the device works on one, the next one's samples are drawn and its
/// host sums are under way; on a GPU a step's metrics are read when the following step is queued, and observers are
/// told then.
class StepPipeline {
 public:
  /// `folder`: for dumps of steps that are not finite. `requests`: this rank's, asked once a step. Session and
  /// observers must outlive it.
  StepPipeline(step::Session& session, const std::filesystem::path& folder, Observers& observers,
               std::function<step::Requests()> requests);
  const step::Feed& feed() const { return feed_; }
  step::Step& step() { return step_; }
  NonFiniteSteps& nonfinite() { return nonfinite_; }
  /// Called before the first step.
  void begin(std::int64_t first_step);
  /// Queues a step. False: the ranks agree to stop before it; agreed() says why. Throws Error when a step was not
  /// finite and train.on_nonfinite says so. Collective over the world.
  bool take(std::int64_t step);
  /// Waits until the observers know all steps that were taken.
  void drain() { report(); }
  /// The run ends before a step whose sums are under way.
  void end_early();
  /// The ranks have agreed to stop elsewhere: what the next step's sums say no longer counts.
  void stop();
  /// What the ranks agreed on at the last step boundary; its `save`: a checkpoint is due by the clock after this step.
  const step::Requests& agreed() const { return agreed_; }
  /// The next step's time leaves out what has passed since the last one's end: evaluation, saving. Called when the
  /// observers know all steps that were taken.
  void leave_out();
  /// It is to be told of this rank's collectives: each step's numbers say who was slowest.
  const std::shared_ptr<CollectiveClock>& clock() const { return clock_; }
  /// 0 before a step is done.
  double longest_step_s() const { return longest_step_s_; }

 private:
  // A step whose metrics may still be on their way from the device.
  struct UnderWay {
    monitor::StepEnded event;
    step::StepInput input;  // a step that fails is run again, and shown
    step::StepNumbers numbers;
    double divisor;                       // what its loss is a mean over
    std::shared_ptr<c10::Event> arrived;  // when the numbers are in host memory; null: they are
  };
  using Clock = std::chrono::steady_clock;
  monitor::StepEnded event_of(std::int64_t step, const StepTotals& totals, double lr) const;
  void report();
  const data::Plan& plan() const { return job_.samples.plan; }

  const job::Job& job_;
  const c10::Device device_;
  step::Feed feed_;
  Control control_;
  step::Step step_;
  NonFiniteSteps nonfinite_;
  Observers& observers_;
  std::function<step::Requests()> requests_;
  std::shared_ptr<CollectiveClock> clock_;
  step::StepInput next_;
  std::optional<UnderWay> under_way_;
  step::Requests agreed_;
  // The end of the last step, from which the next one's time counts: on a GPU where its stream is then, since the host
  // reports a step when it has queued the next one.
  Clock::time_point last_end_;
  std::shared_ptr<c10::Event> last_end_on_gpu_;
  double longest_step_s_ = 0;
};

}  // namespace train
CAPSTAN_END_NAMESPACE
