#pragma once
#include <capstan/base/export.h>
#include <capstan/monitor/monitor.h>

#include <string>
#include <vector>

#include "setup/session.h"
#include "train/feed.h"
#include "train/stop.h"

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// An answer that was generated.
struct Answer {
  std::string id;
  std::string prompt;
  std::string text;
  std::vector<std::string> references;
};

/// Loss, scores and answers of a split; sums are over all ranks, each sample counted once.
struct Evaluation {
  double loss = 0;
  std::int64_t samples = 0;
  double runtime_s = 0;
  monitor::Values scores;       ///< means over the questions
  std::vector<Answer> answers;  ///< this rank's
};

/// Evaluates without gradient. Every rank runs the same number of unit calls. Collective over the world.
class Evaluator {
 public:
  Evaluator(const setup::Job& job, setup::Session& session, const Feed& feed);
  /// From here on loss() and answers() throw Stopped, on all ranks behind the same batch, when one is asked to stop.
  void stops_by(const StopAgreement& agreement) { agreement_ = &agreement; }
  /// Mean loss over all target tokens of the split.
  Evaluation loss(const data::DataSource& source);
  /// Greedy answers to the first `samples` questions (-1: all), and their scores.
  Evaluation answers(const data::DataSource& source, std::int64_t samples);

 private:
  std::vector<std::string> generate(const std::vector<data::Sample>& samples);
  bool anyone(bool mine);
  std::vector<double> sum(std::vector<double> mine);

  const setup::Job& job_;
  setup::Session& session_;
  const Feed& feed_;
  std::int64_t coordinate_;
  bool counts_;
  const StopAgreement* agreement_ = nullptr;
};

/// Does this rank speak for its data coordinate (its position on all other axes is 0)?
bool speaks_for_coordinate(const setup::Job& job);

}  // namespace train
CAPSTAN_END_NAMESPACE
