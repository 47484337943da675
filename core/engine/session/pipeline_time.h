#pragma once
#include <capstan/base/export.h>
#include <capstan/strategy/program.h>

#include <functional>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace plan {

/// How long a step's programs take when positions on pp wait for each other.
struct PipelineTime {
  double seconds = 0;        ///< from the first action's begin to the last one's end
  std::vector<double> busy;  ///< of these each position's that it computes
};

/// Runs programs in thought: by position, with their transfers. `seconds`: what an action takes at a position; that of
/// a send passes until the receiver has it, while the sender continues, and that of a receive counts no more. Throws
/// Error where the programs wait for each other for ever.
PipelineTime pipeline_time(const std::vector<strategy::Program>& programs,
                           const std::function<double(std::size_t position, const strategy::Action&)>& seconds);

}  // namespace plan
CAPSTAN_END_NAMESPACE
