#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>
#include <capstan/comm/group.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shard/footprint.h"
#include "shard/packing.h"
#include "shard/plan.h"
#include "shard/shared.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// A bucket's full weights: the autograd leaves that the model computes with. Their memory exists always, or from
/// take_memory() to free_memory().
class FullParameters {
 public:
  FullParameters(const BucketPlan& plan, c10::Device device) : plan_(plan), device_(device) {}
  /// Makes the leaves and binds them; if they are gathered and freed they get no memory yet.
  void allocate();

  const at::Tensor& leaf(std::size_t i) const { return leaves_[i].tensor; }
  /// A table's leaf for lookups, whose gradient is rows.
  const at::Tensor& table_leaf() const { return leaves_.front().table; }
  /// For a tied table: chooses the leaf that the layers of the next unit use.
  void bind(bool looks_up) { plan_.weights.front().weight->bind(looks_up ? table_leaf() : leaf(0)); }
  /// What units compute with, [numel] of the compute dtype or bytes, while its memory is there.
  const at::Tensor& flat(std::size_t i) const { return leaves_[i].flat; }
  /// The same with its padding.
  at::Tensor padded(std::size_t i) const;

  void take_memory();
  /// `foreign`: the memory was allocated on another stream than the current one, which uses it.
  void free_memory(bool foreign);
  /// The leaves' versions tell any code that keeps something made of them.
  void note_new_values();
  void drop_gradients();
  void add_held(HeldMemory& memory) const;

 private:
  struct Leaf {
    at::Tensor tensor;  ///< the weight that the model computes with
    at::Tensor table;   ///< a table's leaf that lookups use, on the same storage, or the same leaf
    at::Tensor flat;    ///< [numel] on the same storage with its own version counter: refills go through it, so that
                        ///< tensors saved for backward don't count as modified. Where bytes are gathered: these, on
                        ///< a storage of their own, and `tensor` has no memory
  };
  Leaf make_leaf(std::size_t i) const;

  const BucketPlan& plan_;
  c10::Device device_;
  std::vector<Leaf> leaves_;  ///< by weight
};

/// The values of a bucket that this rank keeps: its shard or all of them, as numbers or packed by a codec; and the
/// copies that its gathers send.
class Masters {
 public:
  Masters(const BucketPlan& plan, Shared& shared, const FullParameters& full)
      : plan_(plan), shared_(shared), full_(full) {}
  /// Called after the full parameters have their memory; they may be the masters themselves.
  void allocate();

  /// A weight's masters on this rank: its padded shard, or all of them (padded unless `unpadded`).
  at::Tensor slice(std::size_t i, bool unpadded) const;
  /// What a rule is given, as views; the gradient may have another dtype than the master. `lr` is before the group's
  /// factor. With `copies` a fused rule is to write the masters' copies too.
  optimizer::Slice views(const OwnedSlice& owned, const at::Tensor& gradient, double lr, bool copies) const;
  /// Called after they have changed: updates their copies, except for those that a gather makes. `copied`: the rule has
  /// written them.
  void publish(bool copied);

  /// If they are in host memory: updates the copy that gathers send, in the compute dtype. Runs on the update thread.
  void publish_from_host();
  /// Its two parts: the cast of some elements of the shard, and the copy to the device if one is kept there.
  void cast_to_send(std::int64_t begin, std::int64_t elements);
  void send_up();
  /// The shard on the device: the masters, which may have to be cast, or what was made of them.
  at::Tensor to_send() const;

  /// The shard as a codec packs it; undefined: there are numbers.
  const at::Tensor& packed() const { return packed_; }
  /// A weight's bytes of the packed shard.
  at::Tensor packed_slice(std::size_t i) const;
  void add_held(HeldMemory& memory) const;

 private:
  /// A weight's copy in the compute dtype, as long, on the masters' device; undefined: there is none.
  at::Tensor copy_slice(std::size_t i, bool unpadded) const;

  const BucketPlan& plan_;
  Shared& shared_;
  const FullParameters& full_;
  // The plan's buffers; undefined if it has none.
  at::Tensor all_;        ///< Purpose::master: the masters
  at::Tensor packed_;     ///< Purpose::packed: bytes in their place
  at::Tensor send_copy_;  ///< what gathers send: on the device, or host_send_, or the masters; unless cast for each
  at::Tensor host_send_;  ///< Purpose::send_on_host: their copy in the compute dtype
  Event uploaded_;        ///< the copy on the device is as publish_from_host() left it
};

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
  std::string label_;                           ///< names the all-gathers
  std::shared_ptr<comm::Group> group_;          ///< the ranks that have the shards
  std::shared_ptr<comm::Group> tensor_group_;   ///< the ranks that split packed matrices; null: none do
  std::shared_ptr<comm::Group> reshard_group_;  ///< reshard_size neighbours; null without it
  at::Tensor regather_;                         ///< Purpose::regather
  std::vector<at::Tensor> largest_;             ///< by weight: its largest value, if gathered in bytes
  std::function<void()> await_update_;
  Event gathered_;  ///< the last gather is complete
};

}  // namespace shard
CAPSTAN_END_NAMESPACE
