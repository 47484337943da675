#pragma once
// What moves together, and where data is kept: numbers that the engine, the dry run and the prediction share.
//
// This room's terms. Part of a tensor has one name for each idea:
//
//   Box           the part of a logical tensor that a layout gives to a rank (base/box.h)
//   full          all elements of a record, a weight (its records in order) or a bucket that this rank computes with
//   shard         the part of them that one rank of the bucket's group keeps; padded, so that all ranks' are equal
//   RecordShard   where a record's shard is in the weight's shard, and in the full weight: equal blocks
//                 (nn/weight_sharding.h)
//   staging       a buffer that all buckets use in turn while their data move
//   Slice         what an optimizer's rule updates: of a weight or of one record (optimizer/rule.h, shard/slices.h)
//
// A role of the parameters is sharded (a rank keeps its shard) or replicated (every rank keeps all of it).
//
//   Bucket        the weights that one collective moves: numbers in BucketPlan, memory in BucketParameters and Reducer
//   UnitRun       the neighbouring units that are gathered and reduced together; a tied weight's bucket has several
//   Buffer        memory that the engine allocates for one purpose (shard/buffer.h)
#include <capstan/base/export.h>
#include <capstan/nn/codec.h>
#include <capstan/nn/model.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nn/weight_sharding.h"
#include "shard/buffer.h"
#include "shard/options.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

using nn::padded;
using nn::RecordShard;
using nn::shard_weight;
using nn::WeightSharding;

/// In what form a rank keeps a bucket's weights.
enum class Form {
  values,
  /// A codec's bytes. Full weights exist only while a unit computes with them, decoded from what has been gathered,
  /// even if no other rank has a part of them.
  packed,
  rows  ///< a codec's bytes, with which units compute
};

/// A record's shards as a codec keeps them.
struct PackedShard {
  std::vector<nn::Codec::Extent> extents;  ///< by rank of the bucket's group; the last have fewer elements, or none
  bool divided = false;                    ///< the bucket's ranks share each matrix, and not whole ones
  std::int64_t begin = 0;                  ///< where its bytes begin in a rank's packed shard of the bucket
  std::int64_t bytes = 0;                  ///< bytes that each rank has for them
};

/// A weight in a bucket.
struct PlannedWeight {
  nn::WeightPtr weight;
  WeightSharding sharding;          ///< the rows that each rank of the group has
  std::int64_t shard_offset = 0;    ///< where its shard begins in the bucket's shard
  std::int64_t full_offset = 0;     ///< where the full weight begins among the bucket's full weights
  std::vector<PackedShard> packed;  ///< by record; none where values are kept as they are
  bool in_bytes = false;            ///< a codec gathers it in bytes, which are all that units compute with

  /// Takes the weight's shard from its bucket's flat shard, or from all full weights this one: [numel], or padded.
  at::Tensor of_shard(const at::Tensor& all) const { return all.narrow(0, shard_offset, sharding.shard_elements); }
  at::Tensor of_full(const at::Tensor& all) const { return all.narrow(0, full_offset, sharding.numel); }
  at::Tensor padded_of_full(const at::Tensor& all) const { return all.narrow(0, full_offset, sharding.full_elements); }
};

/// A record whose gradient on this rank is a partial sum over ranks along other axes than data's.
struct PartialRecord {
  std::size_t weight = 0;  ///< index into the bucket's weights
  std::size_t record = 0;  ///< index into the weight's records
};

/// Records of a bucket whose partial sums are added up by one all-reduce.
struct PartialSum {
  std::vector<layout::Axis> axes;  ///< the axes over which the gradient is a partial sum
  std::int64_t ranks = 1;          ///< neighbours along the axes that add up
  /// Stages share it: their backwards end at different times, so it is summed when all of them have.
  bool over_stages = false;
  std::vector<PartialRecord> records;  ///< the records that one all-reduce adds up
};

/// How all-gathers make a bucket's full parameters from shards.
enum class GatherBy {
  nothing,    ///< full ones are kept
  unpacking,  ///< all shards arrive in staging
  in_place,   ///< written to the full weights; only weights without equal contiguous shards pass through staging
  /// The same in bytes, which some weights have in the place of numbers (PlannedWeight::in_bytes), with a scale each.
  bytes_in_place,
  decoding  ///< Form::packed
};

/// The source of this rank's shard for an all-gather.
enum class SendFrom {
  master,      ///< the masters on the device
  cast,        ///< masters, cast by each gather into this rank's place in what is gathered
  host,        ///< host memory, in the compute dtype
  device_copy  ///< a copy in the compute dtype on the device, made once an update
};

/// How a bucket's parameters are kept and gathered.
struct ParameterPlan {
  Form form = Form::values;                         ///< the form of this rank's shard
  std::int64_t packed_bytes = 0;                    ///< bytes of a rank's shard, if packed
  c10::ScalarType full = c10::ScalarType::Float;    ///< what units compute with: the compute dtype, or bytes
  c10::ScalarType master = c10::ScalarType::Float;  ///< frozen weights have no masters: what units compute with
  GatherBy gather_by = GatherBy::nothing;
  SendFrom send_from = SendFrom::master;
  /// From forward to backward they stay sharded over this many neighbours, not over all ranks; 0: over all. Also 0 if
  /// the policy's reshard_size does not divide the ranks: experts may have fewer ranks than dense parameters.
  int reshard_ranks = 0;

  bool gathers() const { return gather_by != GatherBy::nothing; }
};

/// How gradients are summed over the data ranks.
enum class SumBy {
  nothing,                  ///< only this rank has them
  reduce_scatter,           ///< packed in staging; the result is this rank's shard
  reduce_scatter_in_place,  ///< read in place
  exchange,  ///< packed in the compute dtype, exchanged, and added up in the dtype of sums, which is twice
             ///< as wide: staging has room for what is sent and for what comes
  reduce_scatter_all_gather,  ///< the full sum, by the same calls as the sharded one: bit-equal
  all_reduce
};

/// The plan of a table's bucket, where ranks exchange the lookups' gradients as rows (table_plan). Its GradientPlan
/// says what becomes of the rest: a tied table's is its other user's gradient, which is there long before the lookups'.
struct TablePlan {
  std::int64_t rows = 0;        ///< tokens of a rank's micro-batch at most
  bool only_looked_up = false;  ///< no other user: the gradient is nothing but rows
  std::int64_t exchanged = 0;   ///< elements of a rank's own rows and of all ranks'
};

/// How a bucket's gradients become what norm and rule read.
struct GradientPlan {
  SumBy sum_by = SumBy::nothing;
  bool accumulates = false;  ///< full ones are added up (or kept) first, and summed over ranks once a step, if at all
  bool autograd = false;     ///< norm and rule read autograd's own tensors
  /// The dtype of full gradients: the masters', or the compute dtype where nothing is added to what backward gives.
  c10::ScalarType full_dtype = c10::ScalarType::Float;
  bool on_host = false;  ///< the sum is on the device only until it has been sent to host memory
  /// The dtype in which an offloaded sum is sent: the reduce dtype if that keeps every bit, else the masters'.
  c10::ScalarType first_dtype = c10::ScalarType::Float;   ///< for the first micro-step of several
  c10::ScalarType only_dtype = c10::ScalarType::Float;    ///< for a single sum a step
  c10::ScalarType adding_dtype = c10::ScalarType::Float;  ///< if an earlier micro-step's sum was added
  std::vector<PartialSum> partials;                       ///< after the data ranks' sum
  /// The run after whose backward they are summed; nothing: after all of backward. A table's rows are always.
  std::optional<std::size_t> reduced_after;
  std::optional<TablePlan> table;  ///< a table's rows; nothing: no table, or the whole is summed

  bool only_looked_up() const { return table && table->only_looked_up; }
  /// They are taken from autograd's tensors by the stream that computes, into memory that stays; only later do others
  /// read them.
  bool stay_in_place() const { return (accumulates && !autograd) || only_looked_up(); }
  /// `written`: nothing earlier was added. `last`: it is the step's last.
  c10::ScalarType offload_dtype(bool written, bool last) const {
    if (!written) return adding_dtype;
    return last ? only_dtype : first_dtype;
  }
};

/// What one collective moves, as numbers: the weights of a run of neighbouring units (of one kind: trained, or frozen
/// and of one form; on the same data axes), or one weight that several runs use.
struct BucketPlan {
  std::string name;  ///< its units, or the tied weight: for labels
  std::vector<PlannedWeight> weights;
  std::vector<std::size_t> runs;   ///< the runs that use it, in forward order: several use a tied weight
  std::vector<layout::Axis> axes;  ///< axes of the group that holds the shards
  int ranks = 1;                   ///< size of that group
  int copies = 1;                  ///< hybrid: groups that hold the same, whose sums are added up
  bool trainable = true;
  bool shards_param = false;        ///< this rank keeps its shard of the parameters only
  bool shards_optim = false;        ///< … of masters and optimizer state, so also of the summed gradient
  bool on_host = false;             ///< masters and optimizer state (if frozen: its shard) are in host memory
  std::int64_t shard_elements = 0;  ///< a rank's shard, padded; also if nothing is sharded
  std::int64_t full_elements = 0;   ///< all full weights, each padded
  ParameterPlan parameters;
  GradientPlan gradients;
  Buffers buffers;

  const Buffer* buffer(Purpose purpose, std::size_t weight = 0) const { return find(buffers, purpose, weight); }
};

/// Neighbouring units that are gathered and reduced together.
struct UnitRun {
  std::size_t first = 0;  ///< unit
  std::size_t last = 0;   ///< the last unit
  /// The last of its units that backward reaches, which is its first unit unless backward ends in the middle of it: at
  /// the model's first trained unit, where frozen ones before it were joined with it. Past `last`: backward ends
  /// before.
  std::size_t last_in_backward = 0;
  std::vector<std::size_t> buckets = {};  ///< buckets that it uses, own and tied
  bool packs = false;                     ///< a codec keeps some of its weights
  std::size_t stage = 0;                  ///< its stage of this rank's: neighbouring units of two stages are not joined

  /// Does backward run here?
  bool trainable() const { return last_in_backward <= last; }
};

struct ShardPlan {
  std::vector<UnitRun> runs;             ///< in forward order
  std::vector<BucketPlan> buckets;       ///< in the order of their first use
  std::vector<std::size_t> run_of_unit;  ///< by unit
  Buffers staging;                       ///< buffers that all buckets use in turn
};

/// Sets the records' role layouts and decides everything that units and options determine: which weights move
/// together, how, and how much memory that needs. Allocates nothing.
ShardPlan make_plan(const std::vector<nn::Unit*>& units, const EngineOptions& options);

/// Tables whose lookups' gradients are exchanged as rows. Such a gradient has a row for each token of a micro-batch and
/// is complete only when backward has ended, where a sum over ranks of the whole table overlaps with nothing. So each
/// rank gathers all ranks' rows, few bytes, and adds those of its part of the table in one order. Where another unit
/// uses the table too (a tied head), its part of the gradient has been summed meanwhile, while backward ran.
///
/// The plan of `weight`, used by units of these runs; nothing where the whole is to be summed. So it is under
/// `deterministic`, since rows are added in another order; where a strategy sums gradients, or offloads them; where
/// ranks hold parts or copies of the table; where something else than one nn::Embedding uses it in its first run; and
/// where all ranks' rows would be more than the table has.
std::optional<TablePlan> table_plan(const nn::Weight& weight, const std::vector<std::vector<nn::Unit*>>& uses,
                                    const EngineOptions& options);
/// The steps of make_plan that depend on codecs. In what form a weight is kept; where the bytes of one that is packed
/// are in its bucket's packed shard; and which of a bucket's weights are gathered in bytes, once it is known how the
/// bucket is sharded: returns whether any are. The last two throw Error for what a codec cannot do.
Form form_of(const nn::Weight& weight);
void pack(BucketPlan& bucket, PlannedWeight& planned, const EngineOptions& options);
bool plan_bytes(BucketPlan& bucket, const EngineOptions& options);
/// The last steps of make_plan: how a bucket's parameters and gradients are kept and moved, once its weights are known,
/// and its buffers; then the staging that all buckets share.
void resolve(BucketPlan& bucket, const EngineOptions& options);
Buffers list_staging(const ShardPlan& plan, const EngineOptions& options);

}  // namespace shard
CAPSTAN_END_NAMESPACE
