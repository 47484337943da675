#pragma once
#include <capstan/base/export.h>

#include <string>
#include <vector>

#include "step/evaluate.h"
#include "train/observers.h"
#include "train/run_folder.h"

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// A run's evaluations: after chosen steps the loss, at the end (or each time) answers too. Collectives over the world;
/// Stopped is thrown on all ranks when one is asked to stop meanwhile.
class Evaluations {
 public:
  /// All references must outlive it.
  Evaluations(step::Session& session, const step::Feed& feed, step::StopAgreement agreement, Observers& observers,
              RunFolder& folder);
  /// Is one due when `steps_done` steps are done?
  bool due(std::int64_t steps_done) const;
  /// The loss of the evaluation split and of those that have a name, which observers are told; then answers, where each
  /// evaluation has them.
  void run(std::int64_t steps_done);
  /// Answers to both splits' questions, as far as they are asked for and this step's are not known yet.
  void answer_all(std::int64_t steps_done);
  /// The splits whose questions are answered at the end.
  std::vector<std::string> asked_splits() const;
  /// The first answers of each split.
  const std::vector<execution::Answer>& shown_answers() const { return answers_; }

 private:
  void answer(const data::DataSource* source, const std::string& split, std::int64_t samples, std::int64_t steps_done);
  void add_set(const job::EvalSet& set, monitor::EvalEnded& event);
  monitor::EvalEnded event_of(const execution::Evaluation& result, const std::string& split,
                              std::int64_t steps_done) const;

  step::Session& session_;
  const job::Samples& samples_;
  const setup::TrainOptions& options_;
  step::StopAgreement agreement_;
  step::Evaluator evaluator_;
  Observers& observers_;
  RunFolder& folder_;
  std::vector<execution::Answer> answers_;
  std::int64_t answered_after_ = -1;  ///< how many steps were done then
};

}  // namespace train
CAPSTAN_END_NAMESPACE
