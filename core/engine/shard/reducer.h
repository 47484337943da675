#pragma once
#include <capstan/base/export.h>

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "shard/bucket_parameters.h"
#include "shard/executor.h"
#include "shard/packing.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// The gradients of one bucket: from autograd's to the sum over the data ranks, full or this rank's shard of it, in
/// the buffers and by the calls that its GradientPlan says. GatherProtocol says when.
class Reducer {
 public:
  Reducer(BucketParameters& parameters, Shared& shared, const GroupOf& group_of);
  void allocate();

  /// Processes the gradients in the leaves after a micro-step's backward.
  void reduce(const Reduction& how);
  /// For a table: adds what the micro-step's lookups left, all ranks' where sums are due.
  void add_rows(const Reduction& how);
  /// Adds up what stages share, once all their backwards have ended. Ranks call it in the order of the weights' names.
  void sum_over_stages();
  /// Squared norms of these parts of the sum (see owned()), after all sums.
  void measure(const at::Tensor& out, const std::vector<at::Tensor>& parts);
  /// Sends the sum to host memory.
  void offload();
  /// Frees what earlier reductions hold for the side streams; the current stream waits until they have read it.
  void free_inputs();
  /// The current stream waits for the sums.
  void finish();
  /// Has backward left a gradient of this weight at least once, which a reduction took along? Any micro-step's counts:
  /// all make the same calls, and those that are replayed as graphs do not come by here.
  bool has_had_gradient(std::size_t i) const { return reduced_ && reached_[i]; }
  /// Nothing need wait for what was queued so far.
  void forget() {
    held_.clear();
    read_ = Event();
    done_ = Event();
  }

  /// Its tensors as they are now.
  void add_held(HeldMemory& memory) const;
  /// The gradient that the optimizer rule reads of a weight: this rank's padded shard, or all of it.
  at::Tensor slice(std::size_t i) const;
  /// A record's elements of it that are in this rank's shard, also if the rank holds more.
  at::Tensor owned(std::size_t i, const RecordShard& shard) const;

 private:
  bool is_sharded() const { return plan_.shards_optim; }
  /// What is summed is full_; otherwise it is autograd's own gradients.
  bool is_accumulated() const { return plan_.gradients.accumulates; }
  void accumulate(bool first);
  at::Tensor source(std::size_t i);
  struct Rows {
    at::Tensor ids;     ///< [N]
    at::Tensor values;  ///< [N, h]
  };
  Rows take_rows(std::int64_t most);
  void add_all_rows(const Reduction& how, const Rows& own);
  void sum(const Reduction& how);
  std::vector<at::Tensor> sources();
  at::Tensor packed(const BucketPiece& piece, const std::vector<at::Tensor>& sources);
  void reduce_in_place(const at::Tensor& sum);
  void reduce_staged(const Reduction& how, const at::Tensor& out);
  void exchange(const at::Tensor& sum, const at::Tensor& all);
  void sum_shard(const Reduction& how, bool write);
  void add_earlier(const at::Tensor& out);
  void sum_in_order(bool write);
  void sum_full(const Reduction& how, bool write);
  void sum_copies(const Reduction& how);
  void sum_partials(bool over_stages);
  at::Tensor summed(const PartialRecord& partial) const;
  bool overridden(layout::Axis axis, const Reduction& how, Flat flat, const at::Tensor& gradient, const at::Tensor& out,
                  comm::Group& group);
  void unpack(const BucketPiece& piece, const at::Tensor& all, bool write);

  BucketParameters& parameters_;
  const BucketPlan& plan_;
  Shared& shared_;
  std::string label_;                                         ///< names the collectives
  std::shared_ptr<comm::Group> copies_;                       ///< hybrid: the ranks that hold the same shard
  std::vector<std::shared_ptr<comm::Group>> partial_groups_;  ///< by the plan's partials
  at::Tensor full_;                                           ///< Purpose::gradient_full
  std::vector<at::Tensor> parts_of_full_;  ///< by weight, in its shape: made once, not in each micro-step
  at::Tensor shard_;  ///< Purpose::gradient_shard, or staging until the next offloaded bucket is reduced
  std::vector<at::Tensor> autograd_;  ///< Purpose::gradient_autograd, flat
  std::vector<at::Tensor> held_;      ///< autograd's, until the side stream has read them
  std::vector<bool> reached_;         ///< by weight: backward has left a gradient of it
  bool reduced_ = false;              ///< reduce() has been called
  Event read_;
  Event done_;
};

}  // namespace shard
CAPSTAN_END_NAMESPACE
