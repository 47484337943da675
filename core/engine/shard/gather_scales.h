#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>
#include <capstan/comm/group.h>
#include <capstan/nn/codec.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "shard/bucket_parameters.h"
#include "shard/shared.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// The scales of all weights that an engine gathers in bytes. After each update ranks agree on their largest magnitudes
/// in one collective, before the first gather needs them.
class GatherScales {
 public:
  GatherScales(std::deque<BucketParameters>& buckets, Shared& shared, const GroupOf& group_of);
  /// The masters on the device have changed. A collective over all ranks, where there is anything to scale; on the
  /// gathers' stream.
  void update();

 private:
  struct Scaled {
    BucketParameters* bucket;  ///< the weight's bucket
    std::size_t weight;        ///< its number there
  };
  struct Sharing {
    comm::Group* group;  ///< the ranks that have the shards of these weights
    std::int64_t begin;  ///< the first of these weights
    std::int64_t count;  ///< how many they are
  };

  Shared& shared_;
  std::vector<Scaled> weights_;                ///< all weights that are gathered in bytes
  std::vector<Sharing> sharing_;               ///< the same by group, in one order on all ranks
  std::shared_ptr<comm::Group> tensor_group_;  ///< the ranks that have pieces of all weights; null: each has whole ones
  std::shared_ptr<const nn::Codec> codec_;     ///< one of theirs, which are of one kind
  at::Tensor largest_;                         ///< [weights] of all ranks' elements, float32
  at::Tensor scales_;                          ///< as many, each at whole 16 bytes
};

}  // namespace shard
CAPSTAN_END_NAMESPACE
