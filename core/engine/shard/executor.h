#pragma once
#include <capstan/base/export.h>

#include <cstddef>
#include <cstdint>

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// What to do with the gradients in a bucket's leaves after a micro-step's backward.
struct Reduction {
  std::int64_t micro_step = 0;
  bool first = true;         ///< the step's first: there is no earlier sum to add to
  bool last = true;          ///< the step's last: the sum is complete now
  bool accumulates = false;  ///< full gradients are copied into buffers, or added to them
  bool sums = false;         ///< over the data ranks, now
  bool offloads = false;     ///< the sum goes to host memory now
};

/// Carries out what GatherProtocol decides, bucket by bucket. The engine moves tensors; a dry run counts bytes.
class Executor {
 public:
  virtual ~Executor() = default;
  /// Starts to gather a bucket's full parameters; allocates the memory for it. With `keep` a part stays after release,
  /// from which the next gather starts.
  virtual void prefetch(std::size_t bucket, bool keep) = 0;
  /// The current stream waits for the gather that prefetch() started.
  virtual void acquire(std::size_t bucket) = 0;
  /// Frees the full parameters. Not called if they are permanent.
  virtual void release(std::size_t bucket) = 0;
  virtual void reduce(std::size_t bucket, const Reduction& how) = 0;
  /// A run of a tied table's begins: its units look the table up, or use it otherwise. Each has a leaf of its own, so
  /// that the one's gradient need not wait for the other's.
  virtual void bind(std::size_t /*bucket*/, bool /*looks_up*/) {}
  /// Adds what a micro-step's lookups of a table left, after reduce().
  virtual void add_rows(std::size_t /*bucket*/, const Reduction& /*how*/) {}
};

}  // namespace shard
CAPSTAN_END_NAMESPACE
