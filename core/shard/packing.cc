#include "shard/packing.h"

namespace capstan::shard {

void pack_weight(const PlannedWeight& planned, int position, const at::Tensor& full, const at::Tensor& shard,
                 Moves& moves) {
  if (!full.defined()) {
    shard.zero_();
    return;
  }
  std::int64_t filled = 0;
  for (const auto& record : planned.sharding.shards[static_cast<std::size_t>(position)]) {
    if (record.in_shard > filled) shard.narrow(0, filled, record.in_shard - filled).zero_();
    filled = record.in_shard + record.numel;
    if (record.numel > 0) moves.add(record.of_shard(shard), record.of_full(full));
  }
  if (filled < shard.numel()) shard.narrow(0, filled, shard.numel() - filled).zero_();
}

void unpack_weight(const PlannedWeight& planned, int position, const at::Tensor& shard, const at::Tensor& full,
                   Moves& moves) {
  for (const auto& record : planned.sharding.shards[static_cast<std::size_t>(position)]) {
    if (record.numel > 0) moves.add(record.of_full(full), record.of_shard(shard));
  }
}

at::Tensor shard_of(const BucketPlan& bucket, const PlannedWeight& planned, int position, const at::Tensor& all) {
  return all.narrow(0, position * bucket.shard_elements + planned.shard_offset, planned.sharding.shard_elements);
}

}  // namespace capstan::shard
