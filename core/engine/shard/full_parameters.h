#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <vector>

#include "shard/footprint.h"
#include "shard/plan.h"

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
  std::vector<Leaf> leaves_;
};

}  // namespace shard
CAPSTAN_END_NAMESPACE
