#include "shard/counting_executor.h"

namespace capstan::shard {

void CountingExecutor::each(std::size_t bucket, Lifetime lifetime, int sign) const {
  for (const auto& buffer : plan_.buckets[bucket].buffers) {
    if (buffer.lifetime == lifetime) add_(buffer, sign * buffer.bytes());
  }
}

void CountingExecutor::prefetch(std::size_t bucket, bool keep) {
  each(bucket, Lifetime::acquired, 1);
  if (holds_regather_[bucket]) {
    each(bucket, Lifetime::regather, -1);
    holds_regather_[bucket] = false;
    return;
  }
  each(bucket, Lifetime::gathering, 1);
  each(bucket, Lifetime::gathering, -1);
  holds_regather_[bucket] = keep && plan_.buckets[bucket].buffer(Purpose::regather);
  if (holds_regather_[bucket]) each(bucket, Lifetime::regather, 1);
}

}  // namespace capstan::shard
