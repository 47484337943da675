#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/group.h>
#include <capstan/layout/source.h>
#include <capstan/nn/weight.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shard/cut.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// Dtypes and device of a run's parameters.
struct Precision {
  c10::ScalarType compute = c10::ScalarType::Float;  ///< gathered copies, activations, raw gradients
  c10::ScalarType master = c10::ScalarType::Float;   ///< what the optimizer updates
  c10::ScalarType reduce = c10::ScalarType::Float;   ///< summed and accumulated gradients
  c10::Device device{c10::DeviceType::CPU};
};

/// Buffers that collectives pass through, shared by all buckets because one collective runs at a time.
struct Scratch {
  at::Tensor gather;  ///< [ranks · slab] compute dtype
  at::Tensor reduce;  ///< [ranks · slab] reduce dtype
  at::Tensor shard;   ///< [slab] reduce dtype
};

/// A weight as the engine holds it.
struct Held {
  nn::WeightPtr weight;
  WeightCut cut;
  std::int64_t slab_offset = 0;  ///< of its chunk in the bucket's slab

  at::Tensor leaf;           ///< what the model computes with: an autograd leaf over `storage`
  at::Tensor alias;          ///< [numel] on the same storage with its own version counter: refills go through it, so
                             ///< that tensors saved for backward don't count as modified
  at::Tensor master;         ///< [whole_room] master dtype; only where the parameter is whole
  at::Tensor grad;           ///< [whole_room] reduce dtype, or raw: what norm and optimizer read; only where whole
  bool grad_is_raw = false;  ///< grad is the leaf's own gradient, [numel]
};

/// The weights of a run of units (or one tied weight) that one collective moves: the engine's unit of work.
/// Whole buckets keep everything on each rank; sharded ones keep this rank's chunk of every weight in one slab.
class Bucket {
 public:
  Bucket(std::string name, std::vector<nn::WeightPtr> weights, std::shared_ptr<comm::Group> group, bool sharded,
         const layout::Mesh& mesh, int rank, const Precision& precision, const std::string& owner);

  const std::string& name() const { return name_; }
  std::vector<Held>& held() { return held_; }
  const std::vector<Held>& held() const { return held_; }
  comm::Group& group() const { return *group_; }
  bool sharded() const { return sharded_; }
  bool trainable() const { return trainable_; }
  std::int64_t slab() const { return slab_; }
  /// Elements of scratch that its collectives need (0 on one rank).
  std::int64_t gather_room() const { return sharded_ ? slab_ * group_->size() : 0; }
  std::int64_t reduce_room() const { return trainable_ && group_->size() > 1 ? slab_ * group_->size() : 0; }

  /// Allocates parameters and gradients. Sharded leaves get no memory yet.
  void allocate(bool needs_whole_accumulator);
  /// Reads this rank's boxes of every record into the masters, then makes the compute copies of whole weights.
  void fill(layout::Source& source, const layout::Mesh& mesh, int rank);
  /// Makes the leaves usable; nested calls are counted.
  void gather(const Scratch& scratch);
  void release();
  /// Copies masters of whole weights to their leaves where these are separate; after an update.
  void publish();

  /// This rank's chunk of a weight: masters and reduced gradients of a sharded bucket, else of the whole weight.
  at::Tensor master_slice(const Held& held) const;
  at::Tensor grad_slice(const Held& held) const;
  /// The part of a record's gradient that this rank counts in norms: its chunk, also where it holds all of it.
  at::Tensor counted_grad(const Held& held, const Piece& piece) const;
  const std::vector<Piece>& my_pieces(const Held& held) const {
    return held.cut.pieces[static_cast<std::size_t>(group_->rank())];
  }

  /// Takes the leaves' gradients of one micro-step. `first` writes, later ones add; with `reduce` they (or what
  /// has accumulated) are summed over the group.
  struct Collect {
    bool first = true;        ///< first micro-step of the step
    bool reduce = true;       ///< communicate now
    bool accumulate = false;  ///< gradients of earlier micro-steps wait unreduced
  };
  void collect(const Collect& how, const Scratch& scratch);

 private:
  void accumulate(Held& held, bool first);
  void reduce(bool from_accumulator, bool add, const Scratch& scratch);

  std::string name_;
  std::string gather_label_;
  std::string reduce_label_;
  std::shared_ptr<comm::Group> group_;
  bool sharded_;
  bool trainable_;
  Precision precision_;
  std::vector<Held> held_;
  std::int64_t slab_ = 0;
  at::Tensor param_slab_;  // [slab] master dtype, sharded only
  at::Tensor grad_slab_;   // [slab] reduce dtype, sharded only
  int users_ = 0;
};

}  // namespace shard
CAPSTAN_END_NAMESPACE
