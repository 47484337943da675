#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>
#include <capstan/comm/group.h>

#include <cstdint>
#include <memory>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

// Collectives as differentiable functions: made once, when a slot is filled, with the group and the label that hang
// reports and errors name; the backward's label is the forward's with ", backward". Calling one is a collective in
// forward, in backward or in both, which all ranks of the group make in the same order. Tensors are on the group's
// device. In a group of one each returns its argument itself. Thread safety is the group's: one thread at a time.
//
// "Same" below means that all ranks hold equal values; "a part", that their sum is meant. A dimension of `full`
// elements is cut into pieces of ceil(full / size): the last ones may be short or empty (piece_of).

/// Where a rank's piece of a cut dimension begins and how long it is.
struct Piece {
  std::int64_t begin;
  std::int64_t length;
};
/// Rank `rank`'s piece of `full` elements cut for `size` ranks.
Piece piece_of(std::int64_t full, int size, int rank);

/// What a collective is called on, shared with the graphs that it is part of.
struct BoundGroup {
  std::shared_ptr<comm::Group> group;
  std::string forward_label;
  std::string backward_label;
};

/// Same in, same out; the gradients that come back are parts and are summed (all-reduce). In front of a
/// column-parallel layer.
class CopyToGroup {
 public:
  CopyToGroup(std::shared_ptr<comm::Group> group, const std::string& label);
  at::Tensor operator()(const at::Tensor& x) const;

 private:
  std::shared_ptr<const BoundGroup> bound_;
};

/// Parts in, their sum out (all-reduce); the gradient that comes back is the same everywhere and passes. Behind a
/// row-parallel layer.
class ReduceFromGroup {
 public:
  ReduceFromGroup(std::shared_ptr<comm::Group> group, const std::string& label);
  at::Tensor operator()(const at::Tensor& x) const;

 private:
  std::shared_ptr<const BoundGroup> bound_;
};

/// What the gradient of a gathered tensor is on each rank.
enum class GatheredGradient {
  same,  ///< what follows is computed equally by all ranks: backward takes this rank's piece, without a call
  part   ///< what follows is this rank's part: backward sums the pieces (reduce-scatter)
};

/// Pieces of `dim` in, the whole out (all-gather).
class GatherFromGroup {
 public:
  GatherFromGroup(std::shared_ptr<comm::Group> group, std::int64_t dim, GatheredGradient gradient,
                  const std::string& label);
  /// x holds this rank's piece of `full` elements in `dim`.
  at::Tensor operator()(const at::Tensor& x, std::int64_t full) const;

 private:
  std::shared_ptr<const BoundGroup> bound_;
  std::int64_t dim_;
  GatheredGradient gradient_;
};

/// What the tensor that is scattered is on each rank.
enum class ScatteredValue {
  same,  ///< all ranks hold it: forward takes this rank's piece, without a call
  part   ///< each holds a part: forward sums the pieces (reduce-scatter)
};

/// The whole in, this rank's piece of `dim` out; backward gathers the pieces' gradients (all-gather).
class ScatterToGroup {
 public:
  ScatterToGroup(std::shared_ptr<comm::Group> group, std::int64_t dim, ScatteredValue value, const std::string& label);
  at::Tensor operator()(const at::Tensor& x) const;

 private:
  std::shared_ptr<const BoundGroup> bound_;
  std::int64_t dim_;
  ScatteredValue value_;
};

}  // namespace ops
CAPSTAN_END_NAMESPACE
