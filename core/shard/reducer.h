#pragma once
#include <capstan/base/export.h>

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "shard/bucket.h"
#include "shard/moves.h"

namespace capstan::shard {

/// The gradients of one bucket: from autograd's, over accumulators, to the sum over the data ranks, whole or this
/// rank's piece of it.
class Reducer {
 public:
  Reducer(Bucket& bucket, Shared& shared, const GroupOf& group_of);
  void allocate();

  /// Takes what autograd has left in the leaves after a micro-step's backward. `first`: of the step. `last`: what is
  /// summed is complete now.
  struct Collect {
    std::int64_t micro_step = 0;
    bool first = true;
    bool last = true;
  };
  void collect(const Collect& how);
  /// Squared norms of these parts of the sum (see counted()), behind all that is summed.
  void measure(const at::Tensor& out, const std::vector<at::Tensor>& parts);
  /// Lets go of what earlier collects hold for the lanes; the current stream waits until they have read it.
  void let_go();
  /// The current stream waits for the sums.
  void finish();

  /// What the optimizer rule reads of a weight: this rank's padded piece, or all of it.
  at::Tensor slice(std::size_t i) const;
  /// A record's part of it that this rank counts in norms and owns, also where it holds more.
  at::Tensor counted(std::size_t i, const Piece& piece) const;
  /// All of this rank's piece, where there is one.
  const at::Tensor& piece() const { return piece_; }
  bool raw() const { return storage_.raw; }
  /// piece() is one only until the next bucket that passes through the device is collected.
  bool passes() const { return storage_.passes; }
  const Mark& done() const { return done_; }

 private:
  void accumulate(bool first);
  at::Tensor source(std::size_t i, bool waited);
  void reduce(const Collect& how, bool waited);
  void pack(const at::Tensor& all, bool waited);
  void pack_weight(std::size_t i, int rank, const at::Tensor& from, const at::Tensor& chunk, Moves& moves) const;
  void reduce_in_place(bool waited, const at::Tensor& sum);
  void reduce_through_scratch(const Collect& how, bool waited, const at::Tensor& out);
  at::Tensor staging(std::int64_t begin, std::int64_t size) const;
  void reduce_to_piece(const Collect& how, bool waited, bool write);
  void add_earlier(const at::Tensor& out);
  void reduce_in_order(bool waited, bool write);
  void reduce_whole(const Collect& how, bool waited, bool write);
  void sum_copies(const Collect& how);
  void sum_partials();
  at::Tensor summed(const PartialRecord& partial) const;
  /// How a flat gradient is laid out: whole weights side by side, all ranks' pieces, or this rank's piece.
  enum class Flat { whole, pieces, piece };
  bool seat(layout::Axis axis, const Collect& how, Flat flat, const at::Tensor& gradient, const at::Tensor& out,
            comm::Group& group);
  std::vector<strategy::BucketPart> parts(Flat flat) const;
  void unpack(const at::Tensor& all, bool write);

  Bucket& bucket_;
  const BucketPlan& plan_;
  Shared& shared_;
  GradientStorage storage_;
  std::string label_;
  std::shared_ptr<comm::Group> copies_;                       ///< hybrid: the ranks that hold the same piece
  std::vector<std::shared_ptr<comm::Group>> partial_groups_;  ///< by the plan's partials
  at::Tensor whole_;                                          ///< [whole] master dtype
  at::Tensor piece_;                                          ///< [slab] master dtype
  std::vector<at::Tensor> raw_;                               ///< autograd's own, flat; where storage_.raw
  std::vector<at::Tensor> held_;                              ///< autograd's own, until the lane has read them
  Mark read_;
  Mark done_;
};

}  // namespace capstan::shard
