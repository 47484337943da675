#pragma once
#include <capstan/base/export.h>

#include <chrono>
#include <deque>
#include <vector>

#include "inference/evaluate.h"
#include "inference/feed.h"
#include "inference/stop.h"
#include "session/session.h"
#include "train/control.h"
#include "train/nonfinite.h"
#include "train/run_folder.h"
#include "train/saving.h"
#include "train/statistics.h"
#include "train/step.h"

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// The training run: steps, evaluations, answers at the end, final weights. One object, one run.
class Loop {
 public:
  /// `stop` is looked at once a step: all ranks then stop at the same step boundary.
  /// With setting.resume the session was materialised from it; the run then goes on where that was saved.
  Loop(const session::Job& job, session::Session& session, RunFolder& folder, bool output_is_terminal,
       const inference::Stop& stop, const SaveSetting& setting = {});
  /// Throws Error when loss or gradients are not finite and train.on_nonfinite says so, naming parameter and unit.
  monitor::RunEnded run();
  /// True when the run ended early because a rank was asked to stop, or the job's time is over.
  bool stopped() const { return stopped_; }
  /// What all ranks agreed on when they stopped.
  const inference::Wishes& agreed() const { return agreed_; }
  /// What is said of the folder that transformers loads; empty when none was asked for.
  const std::string& model() const { return model_; }

 private:
  // A step whose result may still be on its way from the device.
  struct InFlight {
    monitor::StepEnded event;
    StepResult result;
    inference::StepInput input;  // a step that fails is run again, and shown
    at::Tensor host;
    std::shared_ptr<c10::Event> arrived;
  };

  void resume(checkpoint::Reader& reader);
  void start_run();
  inference::Wishes wishes() const;
  bool time_is_up() const;
  double save_s() const;
  void pass_boundary(std::int64_t steps_done);
  void take_step(std::int64_t step);
  void finish_steps(std::size_t leave);
  void report(InFlight& step);
  bool evaluates_after(std::int64_t step) const;
  bool is_evaluated(std::int64_t steps_done) const;
  void evaluate(std::int64_t steps_done);
  void save_at(const Boundary& boundary);
  void save(const Boundary& boundary);
  void save_at_end(std::int64_t steps_done);
  double runtime_s() const;
  void answer(const data::DataSource* source, const std::string& split, std::int64_t samples, std::int64_t steps_done);
  void stop_between_steps();
  void answer_all(std::int64_t steps_done);
  void publish(const monitor::EvalEnded& event);
  void publish(const std::optional<monitor::CheckpointSaved>& saved);
  std::string save_model(const std::string& weights);
  std::string save_adapters(const std::string& weights);
  template <class Call>
  void each_monitor(const char* phase, const Call& call);

  using Clock = std::chrono::steady_clock;
  const session::Job& job_;
  session::Session& session_;
  RunFolder& folder_;
  const inference::Stop& stop_;
  inference::Feed feed_;
  Control control_;
  inference::StopAgreement agreement_;  ///< for what comes between steps
  Step step_;
  NonFiniteSteps nonfinite_;
  inference::Evaluator evaluator_;
  monitor::RunStarted started_;
  monitor::RunEnded ended_;
  inference::StepInput next_;
  std::deque<InFlight> in_flight_;
  monitor::Values monitor_values_;
  bool stopped_ = false;
  inference::Wishes agreed_;
  double step_s_ = 0;  ///< the longest step so far
  std::string model_;
  Clock::time_point last_report_;
  double paused_s_ = 0;  ///< evaluation since the last report
  Statistics statistics_;
  double earlier_runtime_s_ = 0;  ///< until the checkpoint that the run goes on from
  Clock::time_point begin_ = Clock::now();
  std::string attempt_;
  Saving saving_;
  bool clock_save_ = false;  ///< the ranks agree that a checkpoint is due by the clock, behind this step
  std::vector<inference::Answer> answers_;
};

}  // namespace train
CAPSTAN_END_NAMESPACE
