#pragma once
#include <capstan/base/export.h>
#include <capstan/layout/mesh.h>
#include <capstan/nn/weight.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

/// A rank's shard of a record: contiguous in the rank's shard of a weight, in equal blocks in the full weight (one if
/// dimension 0 is sharded).
struct RecordShard {
  std::size_t record = 0;        ///< index into the weight's records
  std::int64_t in_shard = 0;     ///< offset in the rank's shard of the weight, elements
  std::int64_t in_full = 0;      ///< offset of the first block in the rank's full (compute) weight, elements
  std::int64_t numel = 0;        ///< elements of all blocks; may be 0
  std::int64_t blocks = 1;       ///< at least 1
  std::int64_t block_apart = 0;  ///< from one block's begin to the next one's in the full weight, elements

  /// Its elements in a flat full weight, and in a flat shard of the weight: views of one shape.
  at::Tensor of_full(const at::Tensor& flat) const;
  at::Tensor of_shard(const at::Tensor& flat) const;
  /// Block `i` as a shard of its own.
  RecordShard block(std::int64_t i) const;
  /// What of it lies in these elements of the weight's shard; one of several blocks lies in them whole or not at all.
  RecordShard within(std::int64_t begin, std::int64_t end) const;
};

/// How one weight is sharded over the `ranks` of its data group: each record along one dimension (Param::sharded) by
/// layout::Cut's rule, a rank's shards of the records of a fused group one after the other. Every rank's shard has the
/// same size. What a codec keeps is cut by the same rule at whole multiples of its grain: such shards are no boxes of
/// the record's layouts, and only box() says what they are.
///
/// Storage is rounded up to 64 elements and the rest kept zero: collectives then have equal shards, and ATen's CPU
/// AdamW, whose scalar tail rounds otherwise than its vector body, sees no tail, sharded or not.
struct WeightSharding {
  int ranks = 1;
  /// By record: all of it, as one rank would have it that shares it with none. What each rank has follows (shard()), so
  /// that a plan for a great many ranks is no larger than one for few.
  std::vector<RecordShard> whole;
  std::int64_t numel = 0;           ///< elements of the full weight
  std::int64_t shard_elements = 0;  ///< elements of a rank's shard, padded
  std::int64_t full_elements = 0;   ///< elements of the full weight, padded
  std::vector<std::int64_t> shape;  ///< the full weight's, as the layer uses it
  /// Each record's shards, one rank's after the other's, are the record itself: `strides` elements apart, the last
  /// record's end in its padding. Then collectives can read and write the full weight in place.
  bool in_place = true;
  bool even = true;                    ///< … and nothing is padded at all
  std::vector<std::int64_t> strides;   ///< by record: elements of each rank's shard, padding included
  std::vector<std::int64_t> numels;    ///< by record: elements of all ranks' shards
  std::vector<std::size_t> dims;       ///< by record: the dimension that is sharded
  std::vector<std::int64_t> rows;      ///< … and how much of it a rank has, if it is not one of the last
  std::vector<std::int64_t> all_rows;  ///< … and how much of it there is

  /// What the rank at `position` has of a record.
  RecordShard shard(std::size_t record, int position) const;
  /// Its shards of the records, in order.
  std::vector<RecordShard> of(int position) const;
  /// A record's elements in the rank's flat shard of the weight, or without a position in the flat full weight.
  at::Tensor record_in(const at::Tensor& flat, std::size_t record, std::optional<int> position) const;
  /// What the rank at `position` holds of a record of which `local` is there before data ranks share it.
  layout::Box box(std::size_t record, int position, layout::Box local) const;
};

/// Sizes follow from the records' compute layouts on this rank.
WeightSharding shard_weight(const nn::Weight& weight, const layout::Mesh& mesh, int rank, int group_size);

/// `elements` rounded up to a multiple of 64.
std::int64_t padded(std::int64_t elements);

}  // namespace nn
CAPSTAN_END_NAMESPACE
