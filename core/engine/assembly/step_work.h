#pragma once
#include <capstan/base/export.h>
#include <capstan/strategy/program.h>

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "assembly/topology.h"
#include "assembly/work_counter.h"
#include "shard/plan.h"

CAPSTAN_BEGIN_NAMESPACE
namespace assembly {

/// Data that moves between ranks, or between a rank and its host's memory ("host"), that a codec writes ("decode"), or
/// that a gather reads and writes before it sends them ("cast").
struct Transfer {
  std::string operation;   ///< "all-gather", "reduce-scatter", "all-reduce", "all-to-all", "broadcast", "host",
                           ///< "decode", "cast"
  int ranks = 1;           ///< ranks that take part
  int nodes = 1;           ///< nodes on which they are
  std::int64_t bytes = 0;  ///< bytes of all ranks' data, as comm::PlannedCall counts them
  auto operator<=>(const Transfer&) const = default;
};
using Transfers = std::map<Transfer, std::int64_t>;  ///< how often

/// What a rank's GPU does by itself.
struct Computing {
  meta::Work compute;
  Transfers waited;  ///< collectives of layers: computation needs their result
};

/// A copy of activations to or from host memory begins, or the GPU waits for one. All copies run on one stream, beside
/// what is computed.
struct HostCopy {
  Computing before;         ///< what is computed since the one before this
  std::int64_t bytes = 0;   ///< 0: the GPU waits
  std::size_t awaited = 0;  ///< for the copy at this place of the list
};

/// What a micro-step makes a rank's GPU do.
struct MicroStepWork : Computing {
  Transfers gathers;             ///< the engine's gathers during computation, in a step's first micro-step
  Transfers later_gathers;       ///< the same in each of the others
  std::vector<HostCopy> copies;  ///< activations' way to host memory and back, in the order in which it happens
  bool recomputes = false;       ///< units run again in backward
};

/// The same of an action in a stage, whichever its micro-batch is; transfers are told by who sends.
struct ActionWork {
  strategy::Action action;
  MicroStepWork work;
};

/// What a step makes a rank do.
struct StepWork {
  MicroStepWork micro;       ///< a micro-batch's, in all of the rank's stages
  Transfers reductions;      ///< sums of gradients during computation, in all micro-steps
  double update_bytes = 0;   ///< bytes of GPU memory that adding gradients, their norm and the optimizer read and write
  std::int64_t updated = 0;  ///< weights that the optimizer updates on the GPU, one tensor each
  double whole_flops = 0;    ///< operations of the optimizer's rule for matrices that this rank has whole
  Transfers whole_parts;     ///< exchanges of these matrices' parts in the update, two a round
  double host_elements = 0;  ///< parameters that are updated in host memory
  strategy::Program program = {};  ///< the step's, where the model is cut into stages
  std::vector<ActionWork> actions = {};
  std::int64_t replayed = 0;  ///< micro-steps that device graphs replay: the host launches few things for each
};

/// Adds what is computed, and for an action what it moves.
void add(Computing& sum, const Computing& one);
void add(MicroStepWork& sum, const MicroStepWork& one);

/// The number of nodes that these ranks are on, with `ranks_per_node` neighbours on each.
int nodes_of(const std::vector<int>& ranks, int ranks_per_node);

/// The all-gather of a bucket's parameters, and where they rest in host memory the copy from there.
void add_gather(const shard::BucketPlan& bucket, const Topology& topology, Transfers& transfers);

/// The rest of a step: what the plan and the optimizer's number of state tensors determine.
StepWork step_work(MicroStepWork micro, const shard::ShardPlan& plan, const shard::EngineOptions& options,
                   const Topology& topology);

}  // namespace assembly
CAPSTAN_END_NAMESPACE
