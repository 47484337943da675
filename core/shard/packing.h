#pragma once
#include <ATen/ATen.h>
#include <capstan/base/export.h>

#include <vector>

#include "ops/add_lists.h"
#include "shard/plan.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// Copies or adds lists of tensors in few launches.
struct Moves {
  std::vector<at::Tensor> to;
  std::vector<at::Tensor> from;
  void add(const at::Tensor& destination, const at::Tensor& source) {
    to.push_back(destination);
    from.push_back(source);
  }
  void run(bool write) const {
    if (to.empty()) return;
    if (write) {
      at::_foreach_copy_(to, from);
    } else {
      ops::add_lists_(to, from);
    }
  }
};

/// Copies a full weight to the shard that the rank at `position` has of it: [shard_elements], with zeros between
/// records. Without a full weight all is zero.
void pack_weight(const PlannedWeight& planned, int position, const at::Tensor& full, const at::Tensor& shard,
                 Moves& moves);

/// The way back: `full` is [numel].
void unpack_weight(const PlannedWeight& planned, int position, const at::Tensor& shard, const at::Tensor& full,
                   Moves& moves);

/// A rank's shard of a weight among `all` ranks' shards of a bucket.
at::Tensor shard_of(const BucketPlan& bucket, const PlannedWeight& planned, int position, const at::Tensor& all);

}  // namespace shard
CAPSTAN_END_NAMESPACE
