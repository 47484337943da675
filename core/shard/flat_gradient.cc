#include "shard/flat_gradient.h"

namespace capstan::shard {
namespace {

void add_full(const PlannedWeight& planned, int position, std::vector<strategy::BucketPart>& parts) {
  for (const auto& shard : planned.sharding.shards[static_cast<std::size_t>(position)]) {
    const auto& record = planned.weight->records()[shard.record];
    for (std::int64_t b = 0; shard.numel > 0 && b < shard.blocks; ++b) {
      const auto block = shard.block(b);
      parts.push_back({&record, planned.full_offset + block.in_full, block.numel});
    }
  }
}

void add_shard(const PlannedWeight& planned, int position, std::int64_t begin,
               std::vector<strategy::BucketPart>& parts) {
  for (const auto& shard : planned.sharding.shards[static_cast<std::size_t>(position)]) {
    if (shard.numel == 0) continue;
    parts.push_back(
        {&planned.weight->records()[shard.record], begin + planned.shard_offset + shard.in_shard, shard.numel});
  }
}

}  // namespace

std::vector<strategy::BucketPart> parts_of(const BucketPlan& bucket, Flat flat, int position) {
  std::vector<strategy::BucketPart> parts;
  for (const auto& planned : bucket.weights) {
    if (flat == Flat::shard) {
      add_shard(planned, position, 0, parts);
      continue;
    }
    for (int r = 0; r < bucket.ranks; ++r) {
      if (flat == Flat::full) {
        add_full(planned, r, parts);
      } else {
        add_shard(planned, r, r * bucket.shard_elements, parts);
      }
    }
  }
  return parts;
}

}  // namespace capstan::shard
