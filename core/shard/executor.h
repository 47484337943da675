#pragma once
#include <capstan/base/export.h>

#include <cstddef>
#include <cstdint>

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// What is done with what autograd has left in a bucket's leaves after a micro-step's backward.
struct Reduction {
  std::int64_t micro_step = 0;
  bool first = true;         ///< of the step: nothing earlier is added to
  bool last = true;          ///< of the step: what is summed is complete now
  bool accumulates = false;  ///< full gradients move into buffers, or add to what is there
  bool sums = false;         ///< over the data ranks, now
  bool offloads = false;     ///< the sum goes to host memory now
};

/// Carries out what GatherProtocol decides, bucket by bucket. The engine moves tensors; a dry run counts bytes.
class Executor {
 public:
  virtual ~Executor() = default;
  /// Starts to make a bucket's full parameters; what it takes of memory is there from now on. With `keep` a part stays
  /// behind when it is released, from which the next gather starts.
  virtual void prefetch(std::size_t bucket, bool keep) = 0;
  /// The current stream waits for what prefetch() has started.
  virtual void acquire(std::size_t bucket) = 0;
  /// Frees the full parameters. Not called where they are there always.
  virtual void release(std::size_t bucket) = 0;
  virtual void reduce(std::size_t bucket, const Reduction& how) = 0;
};

}  // namespace shard
CAPSTAN_END_NAMESPACE
