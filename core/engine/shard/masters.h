#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include "shard/full_parameters.h"
#include "shard/shared.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

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
  at::Tensor all_;
  at::Tensor packed_;
  at::Tensor send_copy_;  ///< what gathers send: on the device, or host_send_, or the masters; unless cast for each
  at::Tensor host_send_;
  Event uploaded_;
};

}  // namespace shard
CAPSTAN_END_NAMESPACE
