#pragma once
#include <capstan/base/export.h>
#include <capstan/execution/evaluation.h>

#include <vector>

#include "execution/generate.h"
#include "step/feed.h"
#include "step/stop.h"

CAPSTAN_BEGIN_NAMESPACE
namespace step {

/// Evaluates without gradient. Every rank runs the same number of unit calls. Collective over the world.
class Evaluator {
 public:
  /// Both must outlive it.
  Evaluator(session::Session& session, const Feed& feed)
      : session_(session),
        job_(*session.job),
        feed_(feed),
        generator_(session),
        passes_(
            job_.plugins.minimised,
            [all = session.interpreter.get()](const nn::Batch& batch) { return all->evaluate(batch); },
            session.frozen_runners()) {}
  /// From here on loss() and answers() throw Stopped, on all ranks after the same batch, when one is asked to stop.
  void stops_by(const StopAgreement& agreement) { agreement_ = &agreement; }
  /// What the objective minimises and its figures, over all samples of the split.
  /// Throws Error, which calls it `split`, where none of its tokens bears loss.
  execution::Evaluation loss(const data::DataSource& source, const std::string& split = "eval");
  /// Answers to the first `samples` questions (-1: all), and their scores. A sample without a prompt is no
  /// question, unless it has references: it counts then, with an empty answer.
  execution::Evaluation answers(const data::DataSource& source, std::int64_t samples);

 private:
  struct Scores;
  std::vector<execution::Answer> ask(const data::DataSource& source, const data::EvalPlan& plan, Scores& scores);
  execution::AnswerEnd end_of(const data::DataSource& source) const;
  void gather(const Scores& scores, execution::Evaluation& evaluation);
  std::vector<execution::Answer> gather(const std::vector<execution::Answer>& mine);
  std::vector<double> sum(std::vector<double> mine);
  std::vector<double> sum_given(const std::vector<double>& mine);

  session::Session& session_;
  const session::Job& job_;
  const Feed& feed_;
  execution::Generator generator_;
  strategy::Passes passes_;
  const StopAgreement* agreement_ = nullptr;
};

}  // namespace step
CAPSTAN_END_NAMESPACE
