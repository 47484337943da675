#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>
#include <capstan/comm/group.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shard/full_parameters.h"
#include "shard/masters.h"
#include "shard/packing.h"
#include "shard/shared.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// The parameters of one bucket, and how ranks gather them: from what each keeps to the full parameters that the model
/// computes with, which exist always or between prefetch and release. GatherProtocol says when.
class BucketParameters {
 public:
  BucketParameters(const BucketPlan& plan, Shared& shared, const GroupOf& group_of);
  void allocate();

  /// Starts to gather; allocates the memory for it. With `keep` a part stays after release, from which the next gather
  /// starts.
  void prefetch(bool keep);
  /// The current stream waits for the gather: the parameters can be used on it until release().
  void acquire() { gathered_.wait(shared_.device()); }
  void release();
  /// Called after the masters have changed: see Masters::publish.
  void publish(bool copied = false);
  /// Called before a gather reads what an update writes; may wait.
  void set_await_update(std::function<void()> await) { await_update_ = std::move(await); }
  /// A weight that is gathered in bytes will have this scale, made of this largest magnitude: [1] both.
  void bind_scale(std::size_t i, const at::Tensor& largest, const at::Tensor& scale);
  /// Its tensors as they are now.
  void add_held(HeldMemory& memory) const;

  const BucketPlan& plan() const { return plan_; }
  FullParameters& full() { return full_; }
  Masters& masters() { return masters_; }
  const Masters& masters() const { return masters_; }
  /// The ranks that have the shards.
  comm::Group& group() const { return *group_; }
  int position() const { return group_->rank(); }
  /// The ranks that split the matrices of packed weights; null: none do.
  comm::Group* tensor_group() const { return tensor_group_.get(); }
  /// The label of collectives in the group.
  const std::string& label() const { return label_; }

 private:
  at::Tensor staging() const { return shared_.gather_staging.view(plan_.parameters.full); }
  at::Tensor part_to_send(const at::Tensor& mine, std::int64_t begin, const at::Tensor& out, Moves& casts) const;
  at::Tensor encoded_part(std::size_t i, const at::Tensor& mine, std::int64_t begin, const at::Tensor& out) const;
  void gather_in_place();
  void gather_staged(bool keep);
  void gather_packed();
  void unpack(const std::vector<at::Tensor>& staged) const;
  void decode(const at::Tensor& bytes, int position) const;

  const BucketPlan& plan_;
  Shared& shared_;
  FullParameters full_;
  Masters masters_;
  std::string label_;
  std::shared_ptr<comm::Group> group_, tensor_group_;
  std::shared_ptr<comm::Group> reshard_group_;  ///< reshard_size neighbours; null without it
  at::Tensor regather_;                         ///< Purpose::regather
  std::vector<at::Tensor> largest_;             ///< by weight: its largest value, if gathered in bytes
  std::function<void()> await_update_;
  Event gathered_;
};

}  // namespace shard
CAPSTAN_END_NAMESPACE
