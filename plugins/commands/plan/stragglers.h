#pragma once
#include <capstan/plan/predictor.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace planning {

/// What is not as predicted in a step that is simulated; ranks as the mesh counts them.
struct Disturbances {
  std::map<int, double> slow_gpus = {};   ///< by rank: how many times as long it computes
  std::map<int, double> slow_links = {};  ///< by rank: how many times as long all takes that it sends and receives
  std::set<int> lost_links = {};          ///< ranks of which nothing arrives, and which nothing reaches
  double jitter = 0;                      ///< each action of each rank takes up to this share longer
  std::uint64_t seed = 1;                 ///< determines by how much
  bool any() const { return !slow_gpus.empty() || !slow_links.empty() || !lost_links.empty() || jitter > 0; }
};

/// Ranks of one position on pp that compute a micro-batch together, and never end an action.
struct Stuck {
  int first_rank = 0;
  int ranks = 1;
  std::string action;  ///< "receive states of micro-batch 2 in stage 1"
  double since = 0;    ///< seconds from the step's begin
};

/// A step of all ranks.
struct SimulatedStep {
  double seconds = 0;             ///< infinite where a link is lost that something needs
  double waiting = 0;             ///< mean share of the step in which a rank has nothing to do
  std::vector<Stuck> stuck = {};  ///< those that wait before their program ends, in the order of ranks
  double last_end = 0;            ///< when the last program ends of those that do
};

/// Runs all ranks' programs with the durations that were predicted, and what disturbs them. Ranks that compute a
/// micro-batch together, or gather parameters from each other in each micro-step, wait for each other in every action;
/// positions on pp wait for what others send; all wait for the sums of gradients at the end. Without disturbances the
/// step takes estimate.seconds, or a little more where the position with the most work is not the one that computes
/// longest. Needs estimate.positions and a number of GPUs that the layout divides. Throws Error for ranks that are not
/// there.
SimulatedStep simulate(const capstan::plan::Estimate& estimate, int gpus, const Disturbances& disturbances);

/// Reads "17=1.3" into `by_rank`. Throws Error for any other text, for a factor below 1, and for a rank given twice;
/// `option` is the name to say.
void read_factor(const std::string& text, const std::string& option, std::map<int, double>& by_rank);

/// For people: the step with the disturbances next to the one without.
std::string simulation_text(const capstan::plan::Estimate& estimate, int gpus, const Disturbances& disturbances);

}  // namespace planning
