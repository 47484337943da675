#pragma once
#include <capstan/base/export.h>
#include <capstan/optimizer/joint.h>

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <vector>

#include "shard/options.h"
#include "shard/plan.h"
#include "strategy/optimizer.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// A state of a slice: what the rule says of it, and its memory.
struct PlannedState {
  optimizer::StateSpec spec;  ///< what the rule asked for
  Buffer buffer;              ///< its memory
};

/// What a rule updates at once: all that this rank has of a weight, or its box of one record.
struct PlannedSlice {
  std::size_t bucket = 0;  ///< the bucket's number in the plan
  std::size_t weight = 0;  ///< the weight's number in the bucket
  const strategy::OptimizerGroup* group = nullptr;
  const layout::Param* record = nullptr;  ///< null: all of the weight
  layout::Box box = {};
  std::int64_t begin = 0;  ///< first element in the weight's master
  std::int64_t elements = 0;
  double weight_decay = 0;
  std::vector<PlannedState> states = {};  ///< the rule's states

  std::int64_t state_bytes() const;
};

/// The slices of this rank, in the order of the buckets.
std::vector<PlannedSlice> plan_slices(const ShardPlan& plan, const EngineOptions& options);

/// The axes of the group whose ranks share records for joint updates: along others ranks have records of their own.
std::vector<layout::Axis> joint_axes(const ShardPlan& plan, const EngineOptions& options);
/// The records that a rule updates; a slice's number is its place in plan_slices().
optimizer::Sharing sharing_of(const optimizer::Rule& rule, const ShardPlan& plan, const EngineOptions& options);
/// The joint updates that this rank's rules ask for.
std::vector<std::unique_ptr<optimizer::JointUpdate>> joint_updates(const ShardPlan& plan, const EngineOptions& options);

struct OwnedSlice : PlannedSlice {
  std::vector<at::Tensor> state = {};  ///< their tensors, once they are needed
  bool is_joint = false;               ///< a joint update updates it, and no Rule::apply

  /// Its elements of the weight's tensor; undefined stays so.
  at::Tensor of(const at::Tensor& all) const;
};

/// The rules of these slices, each once.
std::vector<optimizer::Rule*> rules_of(std::span<const OwnedSlice> slices);
/// The slices of a bucket, or of one of its weights; they are in this order.
std::span<const OwnedSlice> slices_of(const std::vector<OwnedSlice>& slices, std::size_t bucket);
std::span<const OwnedSlice> slices_of(const std::vector<OwnedSlice>& slices, std::size_t bucket, std::size_t weight);
/// Do all of their rules write the masters' copies?
bool are_fused(std::span<const OwnedSlice> slices);

}  // namespace shard
CAPSTAN_END_NAMESPACE
