#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>
#include <capstan/comm/group.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

// Collectives as differentiable functions: made once, when a slot is filled, with the group and the label that hang
// reports and errors name; the backward's label is the forward's with ", backward". Calling one is a collective in
// forward, in backward or in both, which all ranks of the group make in the same order. Tensors are on the group's
// device. In a group of one each returns its argument itself. Thread safety is the group's: one thread at a time.
//
// "Same" below means that all ranks hold equal values; "partial", that the value is the sum over the ranks. A dimension
// of `full` elements is sharded into pieces of ceil(full / size): the last ones may be short or empty (piece_of).

/// Where a rank's piece of a sharded dimension begins and how long it is.
struct ShardRange {
  std::int64_t begin;
  std::int64_t length;
};
/// Rank `rank`'s piece of `full` elements sharded over `size` ranks.
ShardRange piece_of(std::int64_t full, int size, int rank);

/// What a collective is called on, shared with the graphs that it is part of.
struct BoundGroup {
  std::shared_ptr<comm::Group> group;
  std::string forward_label;
  std::string backward_label;
};

/// What each of them is made with.
class OnGroup {
 public:
  OnGroup(std::shared_ptr<comm::Group> group, const std::string& label);

 protected:
  std::shared_ptr<const BoundGroup> bound_;
};

/// Same in, same out; in backward the incoming gradients are partial sums and are all-reduced. Used before a
/// column-parallel layer.
class CopyToGroup : OnGroup {
 public:
  using OnGroup::OnGroup;
  at::Tensor operator()(const at::Tensor& x) const;
};

/// Partial sums in, their sum out (all-reduce); in backward the gradient is the same on all ranks and passes through.
/// Used after a row-parallel layer.
class ReduceFromGroup : OnGroup {
 public:
  using OnGroup::OnGroup;
  at::Tensor operator()(const at::Tensor& x) const;
};

/// What the gradient of a gathered tensor is on each rank.
enum class GatheredGradient {
  same,  ///< all ranks compute the same with it: backward takes this rank's piece, without a call
  part   ///< each rank's gradient is a partial sum: backward sums the pieces (reduce-scatter)
};

/// Shards of `dim` in, the full tensor out (all-gather).
class GatherFromGroup : OnGroup {
 public:
  GatherFromGroup(std::shared_ptr<comm::Group> group, std::int64_t dim, GatheredGradient gradient,
                  const std::string& label);
  /// x holds this rank's piece of `full` elements in `dim`.
  at::Tensor operator()(const at::Tensor& x, std::int64_t full) const;

 private:
  std::int64_t dim_;
  GatheredGradient gradient_;
};

/// What the tensor that is scattered is on each rank.
enum class ScatteredValue {
  same,  ///< replicated: forward takes this rank's piece, without a call
  part   ///< partial sums: forward sums the pieces (reduce-scatter)
};

/// The full tensor in, this rank's piece of `dim` out; backward gathers the pieces' gradients (all-gather).
class ScatterToGroup : OnGroup {
 public:
  ScatterToGroup(std::shared_ptr<comm::Group> group, std::int64_t dim, ScatteredValue value, const std::string& label);
  at::Tensor operator()(const at::Tensor& x) const;

 private:
  std::int64_t dim_;
  ScatteredValue value_;
};

/// Rows to other ranks, with uneven counts. Every rank calls it, even where it sends and receives none; backward sends
/// gradients back the same way.
class AllToAllRows : OnGroup {
 public:
  using OnGroup::OnGroup;
  /// x [sum of sent, …], sorted by the rank that rows go to: the first sent[0] go to rank 0. The result [sum of
  /// received, …] is sorted by the rank that rows come from. sent[r] is what rank r has as received[this rank].
  at::Tensor operator()(const at::Tensor& x, const std::vector<std::int64_t>& sent,
                        const std::vector<std::int64_t>& received) const;
};

}  // namespace ops
CAPSTAN_END_NAMESPACE
