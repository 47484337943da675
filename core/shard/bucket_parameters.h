#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/group.h>
#include <capstan/layout/source.h>
#include <capstan/nn/codec_files.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shard/packing.h"
#include "shard/shared.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// The parameters of one bucket: masters, and the full parameters that the model computes with, which exist always or
/// between prefetch and release. GatherProtocol says when.
class BucketParameters {
 public:
  BucketParameters(const BucketPlan& plan, Shared& shared, const GroupOf& group_of);

  const BucketPlan& plan() const { return plan_; }
  comm::Group& group() const { return *group_; }
  int position() const { return group_->rank(); }

  /// Allocates masters and full parameters; if full parameters are gathered and freed they get no memory yet.
  void allocate();
  /// Reads this rank's boxes of every record into the masters.
  void fill(layout::Source& source);
  /// The bytes of a weight that a codec keeps, on this rank.
  at::Tensor packed_slice(std::size_t i) const;
  /// Scatters the first rank's values to every rank of `everyone`. Returns the names of weights of which this rank had
  /// other values before.
  std::vector<std::string> fill_from_first(layout::Source& source, comm::Group& everyone);

  /// Starts to gather; allocates the memory for it. With `keep` a part stays after release, from which the next gather
  /// starts.
  void prefetch(bool keep);
  /// The current stream waits for the gather: the parameters can be used on it until release().
  void acquire() { gathered_.wait(shared_.device()); }
  void release();
  /// After the masters have changed: updates their copies, except for those that a gather makes. `copied`: the rule has
  /// written copy_slice().
  void publish(bool copied = false);
  /// If the masters are in host memory: updates the copy that gathers send, in the compute dtype. On the update thread.
  void publish_from_host();
  /// Its two parts: the cast of some elements of the shard, and the copy to the device if one is kept there.
  void cast_to_send(std::int64_t begin, std::int64_t elements);
  /// A weight's shard of the cast copy; undefined if the masters themselves are sent.
  at::Tensor send_slice(std::size_t i) const;
  void send_up();
  /// Called before a gather reads what an update writes; may wait.
  void set_await_update(std::function<void()> await) { await_update_ = std::move(await); }

  nn::Weight& weight(std::size_t i) const { return *plan_.weights[i].weight; }
  const at::Tensor& leaf(std::size_t i) const { return leaves_[i].tensor; }
  /// Of a table: that of its lookups, whose gradient is rows.
  const at::Tensor& table_leaf() const { return leaves_.front().table; }
  /// Of a tied table: which leaf the layers of the next unit use.
  void bind(bool looks_up) { weight(0).bind(looks_up ? leaves_.front().table : leaf(0)); }
  /// Its tensors as they are now.
  void visit_held(const VisitHeld& visit) const;
  /// A weight's masters on this rank: its padded shard, or all of them (padded unless `unpadded`).
  at::Tensor master_slice(std::size_t i, bool unpadded) const;
  /// Its copy on the device in the compute dtype, of the same length; undefined: there is none, or masters are
  /// elsewhere.
  at::Tensor copy_slice(std::size_t i, bool unpadded) const;
  /// What units compute with, [numel] of the compute dtype or bytes, while its memory is there.
  const at::Tensor& full_weight(std::size_t i) const { return leaves_[i].alias; }
  /// The weights that are gathered in bytes will have these scales, made of these largest magnitudes: [1] each, in
  /// order.
  void bind_scales(const std::vector<at::Tensor>& largest, const std::vector<at::Tensor>& scales);

 private:
  // A record that files hold in its codec's form, and where this rank's part begins.
  struct Coded {
    std::vector<nn::CodedMatrix> matrices;
    std::int64_t first = 0;
  };
  // What packed weights are filled from besides values.
  struct Packing {
    std::shared_ptr<comm::Group> tensor_group;                   ///< that splits their matrices; null: nobody does
    std::map<std::pair<std::size_t, std::size_t>, Coded> coded;  ///< by weight and record, only while they are filled
  };
  struct Leaf {
    at::Tensor tensor;   ///< the weight that the model computes with: an autograd leaf
    at::Tensor table;    ///< of a table: the leaf that lookups use, on the same storage, or the same leaf
    at::Tensor alias;    ///< [numel] on the same storage with its own version counter: refills go through it, so that
                         ///< tensors saved for backward don't count as modified. Where bytes are gathered: these, on
                         ///< a storage of their own, and `tensor` has no memory
    at::Tensor largest;  ///< of a weight that is gathered in bytes
  };

  void make_leaf(std::size_t i);
  // Copies too have the masters' new values; the leaves' versions tell whoever keeps something made of them.
  void publish_filled(const at::Tensor& uncoded);
  // Returns what a codec is to keep: values in the compute dtype, placed as masters are. Undefined: these have them.
  at::Tensor read_values(layout::Source& source);
  bool find_coded(std::size_t i, std::size_t record, const layout::Box& box, const layout::Source& source);
  void encode(const at::Tensor& uncoded);
  void encode_rows(const at::Tensor& uncoded);
  at::Tensor encode_record(std::size_t i, std::size_t record, const at::Tensor& uncoded);
  void gather_packed();
  void take_memory();
  void gather_in_place();
  void gather_staged(bool keep);
  at::Tensor padded_leaf(std::size_t i) const;
  void unpack_staged(const std::vector<at::Tensor>& staged);
  void gather_shards(const at::Tensor& all);
  at::Tensor part_to_send(const at::Tensor& mine, std::int64_t begin, const at::Tensor& out, Moves& casts) const;
  at::Tensor encoded_part(std::size_t i, const at::Tensor& mine, std::int64_t begin, const at::Tensor& out) const;
  at::Tensor shard_to_send();
  at::Tensor gather_staging() const { return shared_.gather_staging.view(plan_.parameters.full); }
  at::Tensor record_of(std::size_t i, std::size_t record, const at::Tensor& weight) const;
  at::Tensor fill_target(std::size_t i, std::size_t record, const at::Tensor& uncoded) const;

  const BucketPlan& plan_;
  Shared& shared_;
  std::string label_;
  std::shared_ptr<comm::Group> group_;
  std::shared_ptr<comm::Group> reshard_group_;  ///< reshard_size neighbours; null without it
  std::vector<Leaf> leaves_;
  // The plan's buffers; undefined if it has none.
  at::Tensor masters_;
  at::Tensor packed_;
  Packing packing_;
  at::Tensor send_copy_;  ///< what gathers send: on the device, or host_send_, or masters_; unless cast for each
  at::Tensor host_send_;
  at::Tensor regather_;
  std::function<void()> await_update_;
  Event gathered_;
  Event uploaded_;
};

}  // namespace shard
CAPSTAN_END_NAMESPACE
