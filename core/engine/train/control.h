#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/communicator.h>
#include <capstan/monitor/monitor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "step/feed.h"
#include "step/stop.h"

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// Sums over all data coordinates, known before the step's backward.
struct StepTotals : step::StepCounts {
  std::vector<double> objective;     ///< the objective's counts
  std::vector<double> sources;       ///< tokens of each source
  step::Requests requests;           ///< each of them, when some rank has it
  monitor::Values monitors;          ///< means over the ranks that returned them
  std::vector<double> collective_s;  ///< by rank; empty where they were not measured on all
};

/// The step's only collective of the host: one all-reduce over the world, started a step ahead. It carries the
/// token counts, what the ranks ask for, each rank's time in collectives, and what monitors returned. A name that a
/// monitor returns for the first time is announced by a flag in it; all ranks then learn the name and sum once more.
/// One thread.
class Control {
 public:
  /// `counts`: this rank gives the counts of its data coordinate.
  Control(std::shared_ptr<comm::Group> world, comm::Communicator& communicator, bool counts)
      : world_(std::move(world)), communicator_(communicator), counts_(counts) {}
  /// Starts the sums for a step that was just drawn. One may be under way. `collective_s`: this rank's seconds.
  void start(const step::StepInput& input, const step::Requests& requests, const monitor::Values& monitors,
             std::optional<double> collective_s = {});
  StepTotals wait();
  bool is_under_way() const { return pending_ != nullptr; }

 private:
  void start_sum(bool announce);
  void agree_on_names();

  std::shared_ptr<comm::Group> world_;
  comm::Communicator& communicator_;
  bool counts_;
  std::vector<std::string> names_;  // the same on all ranks
  std::vector<double> mine_;        // what this rank adds: counts and requests
  std::vector<double> divisors_;    // … and the objective's counts, then the tokens of sources
  std::size_t sources_ = 0;
  std::vector<double> times_;  // by rank; only this one's is not 0
  monitor::Values monitors_;
  at::Tensor numbers_;  // float64: exact for counts below 2^53
  std::unique_ptr<comm::Pending> pending_;
};

}  // namespace train
CAPSTAN_END_NAMESPACE
