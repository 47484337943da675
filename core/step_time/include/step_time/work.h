#pragma once
#include <capstan/base/export.h>
#include <capstan/strategy/program.h>

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace plan {

/// A matrix product [rows, depth] x [depth, columns]. Where one launch multiplies several, rows are those of all.
struct Product {
  std::int64_t rows = 0, columns = 0, depth = 0;
  std::int64_t bytes = 0;   ///< bytes that it reads and writes
  std::int64_t groups = 0;  ///< experts, where each multiplies its own tokens, all in one launch
  bool eight_bits = false;  ///< its operands are
  bool in_blocks = false;   ///< … with a scale for each block of them
  bool single = false;      ///< its operands have 32 bits or more, which no tensor core takes as they are
  auto operator<=>(const Product&) const = default;
  double flops() const {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(depth);
  }
};

/// Fused attention of `heads` heads (batch x heads).
struct AttentionShape {
  std::int64_t heads = 0, queries = 0, keys = 0, width = 0;
  bool causal = false;
  bool segments = false;  ///< by LibTorch's own flash attention: packed samples, and a ring's tiles
  auto operator<=>(const AttentionShape&) const = default;
  /// FLOP of the two forward products; a causal mask leaves half of them.
  double flops() const {
    const auto all = 4.0 * static_cast<double>(heads) * static_cast<double>(queries) * static_cast<double>(keys) *
                     static_cast<double>(width);
    return causal ? all / 2 : all;
  }
};

/// What operators make a GPU do, in counts; with a GPU's rates they become time.
struct Work {
  std::map<Product, std::int64_t> products;
  std::map<AttentionShape, std::int64_t> attention;           ///< forward passes
  std::map<AttentionShape, std::int64_t> attention_backward;  ///< backward passes whose gradient is wanted
  double bytes = 0;                                           ///< bytes that all other operators read and write
  std::int64_t kernels = 0;                                   ///< operators that launch something
};

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
  Work compute;
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
  Transfers whole_parts;     ///< what ranks exchange in the update: these matrices' parts, sums over records
  double host_elements = 0;  ///< parameters that are updated in host memory
  strategy::Program program = {};  ///< the step's, where the model is cut into stages
  std::vector<ActionWork> actions = {};
  std::int64_t replayed = 0;  ///< micro-steps that device graphs replay: the host launches few things for each
};

/// Adds what is computed, and for an action what it moves.
void add(Computing& sum, const Computing& one);
void add(MicroStepWork& sum, const MicroStepWork& one);

}  // namespace plan
CAPSTAN_END_NAMESPACE
