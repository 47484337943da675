#pragma once
#include <capstan/base/export.h>
#include <capstan/execution/evaluation.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/eval_plan.h"
#include "step/feed.h"
#include "step/passes.h"
#include "step/session.h"
#include "step/stop.h"

CAPSTAN_BEGIN_NAMESPACE
namespace step {

/// How a job spreads samples or questions over the data coordinates.
data::EvalPlan eval_plan(const job::Job& job, std::int64_t samples);

/// Sums of each rank's numbers, as many on each. Collective over the world.
std::vector<double> sum_over_ranks(const Session& session, const std::vector<double>& mine);

/// Evaluates without gradient. Every rank runs the same number of unit calls. Collective over the world.
class Evaluator {
 public:
  /// Both must outlive it.
  Evaluator(Session& session, const Feed& feed)
      : session_(session),
        job_(*session.job),
        feed_(feed),
        passes_(
            job_.plugins.minimised,
            [all = session.interpreter.get()](const nn::Batch& batch) { return all->evaluate(batch); },
            session.frozen_runners()) {}
  /// From here on loss() throws Stopped, on all ranks after the same batch, when one is asked to stop.
  void stops_by(const StopAgreement& agreement) { agreement_ = &agreement; }
  /// What the objective minimises and its figures, over all samples of the split.
  /// Throws Error, which calls it `name`, where none of its tokens bears loss.
  execution::Evaluation loss(const data::DataSource& source, const std::string& name = "eval");

 private:
  /// A split's samples in batches: this data coordinate's, -1 for an empty place.
  struct Split {
    const data::DataSource& source;
    data::EvalPlan plan;
    std::vector<std::int64_t> own;
  };
  using SumsOf = std::function<at::Tensor(const std::vector<nn::Batch>&)>;
  std::vector<double> totals(const Split& split, std::int64_t width, const SumsOf& sums_of);

  Session& session_;
  const job::Job& job_;
  const Feed& feed_;
  Passes passes_;
  const StopAgreement* agreement_ = nullptr;
};

}  // namespace step
CAPSTAN_END_NAMESPACE
