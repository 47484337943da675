#pragma once
#include <capstan/base/export.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "train/checkpoint_manager.h"
#include "train/evaluations.h"
#include "train/run_folder.h"
#include "train/step_pipeline.h"

CAPSTAN_BEGIN_NAMESPACE
namespace diagnosis {
class Replicas;
}
namespace train {

/// The training run: steps, evaluations, answers at the end, final weights. One object, one run.
class Loop {
 public:
  /// `stop` is looked at once a step: all ranks then stop at the same step boundary. References must outlive it.
  /// With setting.resume the session was materialised from it; the run then resumes where that was saved.
  /// `started`: what monitors are told that only the process knows: output, environment, the GPU, questions of memory
  /// except for what is held.
  Loop(step::Session& session, RunFolder& folder, const step::Stop& stop, const SaveSetting& setting = SaveSetting(),
       monitor::RunStarted started = monitor::RunStarted());
  /// Adds an observer that is told what the run does; called before the run begins.
  void observe(monitor::Monitor& observer) { observers_.add("", observer); }
  /// Calls it on each rank with every step's number when that step's gradients, times the loss scale, are in the engine
  /// and nothing is updated yet.
  void watch_gradients(std::function<void(std::int64_t)> call) { pipeline_.step().watch_gradients(std::move(call)); }
  /// Throws Error when loss or gradients are not finite and train.on_nonfinite says so, naming parameter and unit.
  monitor::RunEnded run();
  /// Calls it with the parameters that an evaluation after `steps_done` steps sees. Collective over the world.
  void as_evaluated(std::int64_t steps_done, const std::function<void()>& call) {
    pipeline_.step().during_evaluation(steps_done, call);
  }
  /// True when the run ended early because a rank was asked to stop, or the job's time is over.
  bool stopped() const { return stopped_; }
  /// It has saved checkpoints, from which a later one continues.
  bool saves() const { return checkpoints_.on(); }
  /// What all ranks agreed on when they stopped.
  const step::Requests& agreed() const { return pipeline_.agreed(); }
  /// What is said of the folder that transformers loads; empty when none was asked for.
  const std::string& model() const { return model_; }
  /// Why the run ended before its last step, by train.stop_after_evals; empty: it did not.
  const std::string& stopped_early() const { return statistics_.stopped_early; }
  /// Mean time of a step, s, in a run that began at step 0 and did this number. The longest is left out, since in it
  /// kernels are loaded and memory is first taken. 0 where there are fewer than two steps.
  double usual_step_s(std::int64_t steps_done) const;
  /// What each rank has used, by rank; empty before the run's end.
  const std::vector<PeakMemory>& peaks() const { return peaks_; }

 private:
  void restore(checkpoint::Reader& reader);
  std::vector<std::string> answers_again() const;
  monitor::RunEnded run_all();
  monitor::RunEnded ended_after(std::int64_t steps_done) const;
  std::int64_t run_steps();
  step::Requests requests() const;
  bool time_is_up() const;
  void pass_boundary(std::int64_t steps_done);
  void judge_progress(std::int64_t steps_done);
  void trace();
  void evaluate(std::int64_t steps_done, void (Evaluations::*what)(std::int64_t));
  void save(const Boundary& boundary);
  void begin_saving_if_interrupted(std::int64_t steps_done);
  void save_at_end(std::int64_t steps_done);
  const job::Job& job() const { return *session_.job; }

  using Clock = std::chrono::steady_clock;
  step::Session& session_;
  RunFolder& folder_;
  const step::Stop& stop_;
  Statistics statistics_;
  Observers observers_;
  monitor::RunStarted started_;
  StepPipeline pipeline_;
  Evaluations evaluations_;
  CheckpointManager checkpoints_;
  std::shared_ptr<diagnosis::Replicas> replicas_;  ///< null: they are not compared
  Clock::time_point begin_ = Clock::now();
  bool stopped_ = false;
  std::string weights_;
  std::string model_;
  std::vector<PeakMemory> peaks_;
};

}  // namespace train
CAPSTAN_END_NAMESPACE
