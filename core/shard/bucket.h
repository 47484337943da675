#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/group.h>
#include <capstan/layout/source.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shard/shared.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// The parameters of one bucket: masters, and the whole copies that the model computes with, which are there always
/// or between gather and release.
class Bucket {
 public:
  Bucket(const BucketPlan& plan, Shared& shared, const GroupOf& group_of);

  const BucketPlan& plan() const { return plan_; }
  comm::Group& group() const { return *group_; }
  int position() const { return group_->rank(); }

  /// Allocates masters and whole copies; copies that come and go get no memory yet.
  void allocate();
  /// Reads this rank's boxes of every record into the masters.
  void fill(layout::Source& source);
  /// Gives every rank of `everyone` its part of what the first one's source says. Returns the names of weights of
  /// which this rank had other values before.
  std::vector<std::string> fill_from_first(layout::Source& source, comm::Group& everyone);

  /// Starts to gather, if that is needed; what it takes of memory is there from now on. With `keep` a part stays
  /// behind when it is released, from which it is gathered next time.
  void prefetch(bool keep);
  /// The whole copies can be used on the current stream from now on, until the release that belongs to this call.
  void acquire(bool keep);
  void release();
  /// After the masters have changed: makes whole copies from them, or has that done when they are next acquired.
  void publish();
  /// Where the masters are in host memory: renews what is sent from, in the compute dtype. On the update thread.
  void publish_from_host();
  /// Its two parts: the cast of some elements of the piece, and the copy to the device where one is kept there.
  void cast_to_send(std::int64_t begin, std::int64_t elements);
  /// A weight's part of what is cast; undefined where the masters themselves are sent.
  at::Tensor send_slice(std::size_t i) const;
  void send_up();
  /// Called before a gather reads what an update writes; may wait.
  void set_await_update(std::function<void()> await) { await_update_ = std::move(await); }

  nn::Weight& weight(std::size_t i) const { return *plan_.weights[i].weight; }
  const at::Tensor& leaf(std::size_t i) const { return leaves_[i].tensor; }
  /// This rank's part of a weight's masters: its padded piece, or all of it (padded unless `raw`).
  at::Tensor master_slice(std::size_t i, bool raw) const;
  bool on_host() const { return on_host_; }

 private:
  struct Leaf {
    at::Tensor tensor;  ///< what the model computes with: an autograd leaf
    at::Tensor alias;   ///< [numel] on the same storage with its own version counter: refills go through it, so that
                        ///< tensors saved for backward don't count as modified
  };
  enum class State { empty, gathering, there };

  void make_leaf(std::size_t i);
  void start(bool keep);
  void take_memory();
  void give_memory();
  void gather_in_place();
  void gather_through_scratch(bool keep);
  at::Tensor whole_room(std::size_t i) const;
  void gather_pieces(const at::Tensor& all);
  at::Tensor piece_to_send();
  void unpack(const at::Tensor& all);
  void unpack_weight(std::size_t i, int rank, const at::Tensor& chunk, std::vector<at::Tensor>& to,
                     std::vector<at::Tensor>& from) const;
  at::Tensor fill_target(std::size_t i, std::size_t record) const;

  const BucketPlan& plan_;
  Shared& shared_;
  std::string label_;
  std::shared_ptr<comm::Group> group_;
  std::shared_ptr<comm::Group> part_group_;  ///< reshard_size neighbours; null without it
  bool on_host_;
  SendFrom send_from_;
  std::vector<Leaf> leaves_;
  at::Tensor masters_;  ///< [slab] where pieces are cut, else [whole]; host memory where offloaded
  at::Tensor
      send_copy_;  ///< [slab] compute dtype: in host memory or on the device; only where the masters can't be sent
  at::Tensor host_send_;  ///< [slab] compute dtype in host memory: on its way to send_copy_ on the device
  at::Tensor kept_;       ///< [ranks / part · slab] compute dtype: what stays behind after forward
  std::function<void()> await_update_;
  State state_ = State::empty;
  int users_ = 0;
  Mark gathered_;
  Mark uploaded_;
};

}  // namespace shard
CAPSTAN_END_NAMESPACE
