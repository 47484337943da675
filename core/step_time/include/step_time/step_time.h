#pragma once
#include <capstan/base/export.h>
#include <capstan/plan/predictor.h>
#include <capstan/strategy/program.h>

#include <cstdint>
#include <string>
#include <vector>

#include "step_time/figures.h"
#include "step_time/work.h"

CAPSTAN_BEGIN_NAMESPACE
namespace plan {

/// The time of an optimizer step, seconds. The parts add up to total().
struct StepTime {
  double products = 0;     ///< matrix products
  double attention = 0;    ///< fused attention
  double decoding = 0;     ///< weights in 4 bits
  double others = 0;       ///< all other operators of the layers
  double update = 0;       ///< gradients' sums, their norm, the optimizer
  double layers_wait = 0;  ///< for layers' own collectives
  double copies_wait = 0;  ///< for copies of activations to and from host memory
  double engine_wait = 0;  ///< for gathers and reductions: what slows computation down, and what it does not hide
  double host_wait = 0;    ///< for the host to launch
  double offload = 0;      ///< the update in host memory, and copies there that nothing hides
  double bubble = 0;       ///< for other stages
  double moving = 0;       ///< no part: gathers and reductions, hidden or not
  std::vector<PositionTime> positions = {};  ///< by position on pp
  std::string unknown;                       ///< for people: why there is no time; the parts are 0 then
  double total() const {
    return products + attention + decoding + others + update + layers_wait + copies_wait + engine_wait + host_wait +
           offload + bubble;
  }
};

/// Estimates what a rank's step takes: `micro_steps` times its micro-step, then the rest. `node_bytes`: bus
/// bandwidth of collectives that cross nodes, bytes/s; 0: not known, and then nor is the time of what does.
StepTime step_time(const StepWork& work, std::int64_t micro_steps, const Figures& figures, double node_bytes = 0);

/// Positions' programs as time passes, in seconds. What a send takes passes until the receiver has it, while the sender
/// continues. Throws Error where the programs wait for each other for ever.
strategy::Timeline pipeline_time(const std::vector<PositionTime>& positions);

/// The same of the position on pp whose work takes longest, from the work of each: all positions' programs are run with
/// what their actions take (pipeline_time), and where it has nothing to do it waits for the others.
StepTime step_time(const std::vector<StepWork>& works, std::int64_t micro_steps, const Figures& figures,
                   double node_bytes = 0);

/// A table for people: milliseconds by part, those that are there.
std::string step_time_table(const StepTime& time);

}  // namespace plan
CAPSTAN_END_NAMESPACE
