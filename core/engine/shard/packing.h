#pragma once
#include <ATen/ATen.h>
#include <capstan/base/export.h>
#include <capstan/strategy/step_hooks.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/add_lists.h"
#include "shard/plan.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

using ops::Moves;

/// Copies a full weight to the shard that the rank at `position` has of it, or to the part of that which begins at
/// `begin`, with zeros between records. Without a full weight all is zero.
void pack_weight(const PlannedWeight& planned, int position, const at::Tensor& full, const at::Tensor& shard,
                 Moves& moves, std::int64_t begin = 0);

/// The way back: `full` is [numel].
void unpack_weight(const PlannedWeight& planned, int position, const at::Tensor& shard, const at::Tensor& full,
                   Moves& moves, std::int64_t begin = 0);

/// Elements [begin, end) of each rank's shard of a bucket, which are reduced at once.
struct BucketPiece {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
};

/// The pieces of a bucket, in order: whole weights as far as all ranks' shards of them are at most `most` elements, and
/// parts of a weight that is larger and whose shards are one row of elements.
std::vector<BucketPiece> pieces_of(const BucketPlan& bucket, std::int64_t most);

/// A weight's part of a piece, as staging has it: calls visit(position, its elements in `all`, where they begin in the
/// weight's shard) for each rank.
template <class Visit>
void each_staged(const BucketPlan& bucket, const PlannedWeight& planned, const BucketPiece& piece,
                 const at::Tensor& all, const Visit& visit) {
  const auto from = std::max(piece.begin, planned.shard_offset);
  const auto to = std::min(piece.end, planned.shard_offset + planned.sharding.shard_elements);
  for (int r = 0; r < bucket.ranks && from < to; ++r)
    visit(r, all.narrow(0, r * piece.size() + from - piece.begin, to - from), from - planned.shard_offset);
}

/// What a bucket's flat gradient holds: full weights one after the other, all ranks' shards, or one rank's shard.
enum class Flat { full, shards, shard };

/// Where records are in it; a shard is that of the rank at `position`. Padding is in no part.
std::vector<strategy::BucketPart> parts_of(const BucketPlan& bucket, Flat flat, int position);

}  // namespace shard
CAPSTAN_END_NAMESPACE
