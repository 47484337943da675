#pragma once
#include <capstan/base/export.h>
#include <capstan/layout/footprint.h>
#include <capstan/nn/model.h>

#include <cstdint>
#include <string>
#include <vector>

#include "shard/cut.h"
#include "shard/options.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// A weight in a bucket.
struct PlannedWeight {
  nn::WeightPtr weight;
  WeightCut cut;
  std::int64_t slab_offset = 0;   ///< of its chunk in the bucket's slab
  std::int64_t whole_offset = 0;  ///< of the whole weight among the bucket's whole weights
};

/// A record whose gradient on this rank is a part of what several ranks along other axes than data's have.
struct PartialRecord {
  std::size_t weight = 0;  ///< index into the bucket's weights
  std::size_t record = 0;
};

/// Records of a bucket whose parts are added up by one all-reduce.
struct PartialSum {
  std::vector<layout::Axis> axes;
  std::int64_t ranks = 1;  ///< neighbours along the axes that add up
  std::vector<PartialRecord> records;
};

/// What one collective moves, as numbers: the weights of a run of neighbouring units (of one kind: trained or frozen,
/// on the same data axes), or one weight that several runs use.
struct BucketPlan {
  std::string name;
  std::vector<PlannedWeight> weights;
  std::vector<std::size_t> runs;   ///< that use it, in forward order
  std::vector<layout::Axis> axes;  ///< of the group that holds the pieces
  int ranks = 1;                   ///< of that group
  int copies = 1;                  ///< hybrid: groups that hold the same, whose sums are added up
  bool trainable = true;
  std::vector<PartialSum> partials;  ///< behind the data ranks' sum

  bool offloads = false;   ///< the policy's offload_optim or offload_param holds for it
  bool cut_param = false;  ///< this rank keeps its piece of the parameters only
  bool cut_optim = false;  ///< … of masters and optimizer state, so also of the summed gradient
  std::int64_t slab = 0;   ///< elements of a rank's piece, padded; also where nothing is cut
  std::int64_t whole = 0;  ///< elements of all whole weights, each padded

  bool is_tied() const { return runs.size() > 1; }
  /// Masters and optimizer state (of a frozen weight: its piece) are in host memory.
  bool on_host() const { return offloads && (trainable ? cut_optim : cut_param); }
  /// Gradients are summed with other ranks, or at least moved into a piece.
  bool reduces() const { return trainable && (ranks > 1 || copies > 1 || cut_optim); }
  /// Whole copies are made from pieces by an all-gather.
  bool gathers() const { return cut_param || cut_optim; }
  /// A rank's pieces of the weights, in order.
  const std::vector<Piece>& pieces(const PlannedWeight& planned, int position) const {
    return planned.cut.pieces[static_cast<std::size_t>(position)];
  }
  /// Elements of a record's gradient that the first rank keeps of the sum; others may keep fewer.
  std::int64_t summed_elements(const PartialRecord& partial) const;
};

/// Neighbouring units that are gathered and reduced together.
struct Run {
  std::size_t first = 0;  ///< unit
  std::size_t last = 0;
  bool trainable = true;             ///< backward comes here: it or a run in front of it has something to train
  std::vector<std::size_t> buckets;  ///< that it uses, own and tied
};

struct Plan {
  std::vector<Run> runs;            ///< in forward order
  std::vector<BucketPlan> buckets;  ///< in the order of their first use
  std::vector<std::size_t> run_of_unit;
};

/// Sets the records' role layouts and decides which weights move together. Allocates nothing.
Plan make_plan(const std::vector<nn::Unit*>& units, const EngineOptions& options);

/// Elements of all weights that are trained (logical).
std::int64_t trainable_parameters(const Plan& plan);

/// What the engine allocates for a plan on one rank; it takes its sizes from the same numbers. `states`: tensors of
/// optimizer state a slice.
std::vector<layout::Footprint> footprint(const Plan& plan, const EngineOptions& options, std::size_t states);

/// After forward the bucket's parameters stay cut over the policy's reshard_size neighbours. Not where that does not
/// divide its ranks: experts may have fewer than dense parameters.
bool reshards(const BucketPlan& bucket, const strategy::ShardPolicy& policy);

/// Elements of the buffers that collectives pass through, shared by all buckets.
/// All-gathers write the whole weights themselves; only weights that are no rows of equal pieces pass through scratch.
bool gathers_in_place(const BucketPlan& bucket, const EngineOptions& options);
/// The same for what is read by reductions of accumulators (`waited`) or of autograd's own gradients.
bool reduces_in_place(const EngineOptions& options, bool waited);

struct ScratchSizes {
  std::int64_t gather = 0;   ///< compute dtype
  std::int64_t reduce = 0;   ///< reduce dtype
  std::int64_t shard = 0;    ///< reduce dtype
  std::int64_t partial = 0;  ///< master dtype
  std::int64_t rooms = 0;    ///< for pieces on their way to the host
  std::int64_t room = 0;     ///< bytes of each
  std::int64_t backs = 0;    ///< for earlier sums on their way back
  std::int64_t back = 0;     ///< bytes of each
};
ScratchSizes scratch_sizes(const Plan& plan, const EngineOptions& options);

/// Where the piece that this rank gives to an all-gather lies between updates.
enum class SendFrom {
  master,      ///< the masters on the device, cast on the way
  host,        ///< host memory, in the compute dtype
  device_copy  ///< a copy in the compute dtype on the device, made once an update
};
SendFrom send_from(const BucketPlan& bucket, const EngineOptions& options);
/// What the masters are kept in; frozen weights have none and stay in the compute dtype.
c10::ScalarType master_dtype(const BucketPlan& bucket, const EngineOptions& options);

/// Where and how a bucket's gradients are kept; the same answer for plan, engine and prediction.
struct GradientStorage {
  bool whole = false;   ///< accumulators of whole weights
  bool piece = false;   ///< this rank's piece of the sum
  bool passes = false;  ///< … which lies in host memory and is on the device on its way only
  bool raw = false;     ///< autograd's own tensors are read by norm and rule
};
GradientStorage gradient_storage(const BucketPlan& bucket, const EngineOptions& options);
/// What a passing piece is summed and sent in: the reduce dtype where that keeps every bit, else the masters'.
/// `written`: nothing earlier was added. `last`: of the step.
c10::ScalarType passing_dtype(const BucketPlan& bucket, const EngineOptions& options, bool written, bool last);
/// What there is room for in host memory.
c10::ScalarType host_gradient_dtype(const BucketPlan& bucket, const EngineOptions& options);

}  // namespace shard
CAPSTAN_END_NAMESPACE
