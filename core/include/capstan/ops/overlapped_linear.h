#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>
#include <capstan/comm/group.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

// A column-parallel layer fused with the collective before it, so that backward can move data while it
// multiplies; results are bit-identical to the two apart (collectives.h). Made once, when a port is filled. Both
// compute x W^T + bias with W [out, in], bias [out] or absent, and make the same calls on all ranks of the group in the
// same order: which ones depends on what requires a gradient. In a group of one there are none.
//
// On CUDA the calls that overlap run on the group's own stream (Group::start_all_reduce). On CPU they are made at the
// same places, without overlap.

/// What a collective before a layer is called on.
struct OverlappedLabels {
  std::shared_ptr<comm::Group> group;
  std::string forward;
  std::string backward;
};

/// at::linear(CopyToGroup(x), W, bias). Backward starts the sum of x's gradient over the group (all-reduce), computes
/// the gradients of W and bias, and waits.
class LinearOfCopy {
 public:
  LinearOfCopy(std::shared_ptr<comm::Group> group, const std::string& label);
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias) const;

 private:
  std::shared_ptr<const OverlappedLabels> bound_;
};

/// at::linear(GatherFromGroup(x), W, bias), the gradient of the gathered tensor being a part. Backward starts the sum
/// of that one's pieces (reduce-scatter), computes the gradients of W and bias, and waits.
class LinearOfPieces {
 public:
  LinearOfPieces(std::shared_ptr<comm::Group> group, std::int64_t dim, const std::string& label);
  /// x holds this rank's piece of `full` elements in `dim`, which is not the last one.
  at::Tensor operator()(const at::Tensor& x, std::int64_t full, const at::Tensor& weight,
                        const std::optional<at::Tensor>& bias) const;

 private:
  std::shared_ptr<const OverlappedLabels> bound_;
  std::int64_t dim_;
};

}  // namespace ops
CAPSTAN_END_NAMESPACE
