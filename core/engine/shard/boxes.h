#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <functional>

#include "shard/plan.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// A record's box that a rank holds, in the weight's Slice: elements [begin, begin + box.numel()).
struct HeldBox {
  std::size_t bucket;  ///< the bucket's number in the plan
  std::size_t weight;  ///< the weight's number in the bucket
  const layout::Param& record;
  layout::Layout layout;  ///< the layout of all ranks' boxes
  layout::Box box;        ///< this rank's box of the record
  std::int64_t begin;
  bool writes_to_checkpoint;  ///< this one does among the ranks that hold this copy
  int copy;                   ///< position on the record's local axes, along which values differ
};

enum class Of { parameters, gradients };

/// Calls visit for every record with elements that options.rank holds: those of the parameters (the optimizer's state
/// has the same layout) or those of the summed gradients. What a codec keeps is left out: bytes have no boxes.
void each_box(const ShardPlan& plan, const EngineOptions& options, Of what, bool only_trainable,
              const std::function<void(const HeldBox&)>& visit);

/// The position on the record's local axes, along which values differ; 0 for a frozen one.
int copy_of(const layout::Param& record, const EngineOptions& options);

/// Does this rank own the record's gradient for the norm? Of the ranks that hold the same element of the sum, exactly
/// one does. Ranks that differ on a local axis hold different gradients: each owns its own.
bool owns_for_norm(const layout::Param& record, const BucketPlan& bucket, const EngineOptions& options);

/// Bytes that this rank writes to a checkpoint: its parameters, and the optimizer's states of the trainable ones.
std::int64_t saved_bytes(const ShardPlan& plan, const EngineOptions& options, bool only_trainable);

/// Bytes of the masters of trainable records that this rank holds.
std::int64_t trained_master_bytes(const ShardPlan& plan, const EngineOptions& options);

}  // namespace shard
CAPSTAN_END_NAMESPACE
