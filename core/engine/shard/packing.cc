#include "shard/packing.h"

namespace capstan::shard {

void pack_weight(const PlannedWeight& planned, int position, const at::Tensor& full, const at::Tensor& shard,
                 Moves& moves, std::int64_t begin) {
  if (!full.defined()) {
    shard.zero_();
    return;
  }
  std::int64_t filled = 0;
  for (const auto& record : planned.sharding.of(position)) {
    auto part = record.within(begin, begin + shard.numel());
    if (part.numel == 0) continue;
    part.in_shard -= begin;
    if (part.in_shard > filled) shard.narrow(0, filled, part.in_shard - filled).zero_();
    filled = part.in_shard + part.numel;
    moves.add(part.of_shard(shard), part.of_full(full));
  }
  if (filled < shard.numel()) shard.narrow(0, filled, shard.numel() - filled).zero_();
}

void unpack_weight(const PlannedWeight& planned, int position, const at::Tensor& shard, const at::Tensor& full,
                   Moves& moves, std::int64_t begin) {
  for (const auto& record : planned.sharding.of(position)) {
    auto part = record.within(begin, begin + shard.numel());
    part.in_shard -= begin;
    if (part.numel > 0) moves.add(part.of_full(full), part.of_shard(shard));
  }
}

std::vector<BucketPiece> pieces_of(const BucketPlan& bucket, std::int64_t most) {
  const auto limit = std::max<std::int64_t>(1, most / bucket.ranks);
  std::vector<BucketPiece> pieces;
  BucketPiece piece;
  const auto close = [&](std::int64_t end) {
    if (end == piece.begin) return;
    pieces.push_back({piece.begin, end});
    piece.begin = end;
  };
  for (const auto& planned : bucket.weights) {
    const auto end = planned.shard_offset + planned.sharding.shard_elements;
    if (end - piece.begin > limit) close(planned.shard_offset);
    const bool can_be_cut = planned.weight->records().size() == 1 && planned.sharding.whole.front().blocks == 1;
    while (can_be_cut && end - piece.begin > limit) close(piece.begin + limit);
  }
  close(bucket.shard_elements);
  return pieces;
}

std::vector<strategy::BucketPart> parts_of(const BucketPlan& bucket, Flat flat, int position) {
  std::vector<strategy::BucketPart> parts;
  const auto add = [&](const PlannedWeight& planned, const RecordShard& shard, std::int64_t begin) {
    if (shard.numel > 0) parts.push_back({&planned.weight->records()[shard.record], begin, shard.numel});
  };
  for (const auto& planned : bucket.weights) {
    for (int r = 0; r < bucket.ranks; ++r) {
      if (flat == Flat::shard && r != position) continue;
      const auto begin = planned.shard_offset + (flat == Flat::shards ? r * bucket.shard_elements : 0);
      for (const auto& shard : planned.sharding.of(r)) {
        if (flat != Flat::full) add(planned, shard, begin + shard.in_shard);
        for (std::int64_t b = 0; flat == Flat::full && b < shard.blocks; ++b) {
          const auto block = shard.block(b);
          add(planned, block, planned.full_offset + block.in_full);
        }
      }
    }
  }
  return parts;
}

}  // namespace capstan::shard
