#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// to[i] += from[i], element by element, in the dtype of to[i]. Dense tensors of equal sizes. ATen adds lists of two
/// dtypes one tensor at a time; on CUDA this adds 16-bit numbers to float32 ones in a launch for every 64 tensors, with
/// the same roundings.
void add_lists_(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from);

/// Copies or adds lists of tensors in few launches.
struct Moves {
  std::vector<at::Tensor> to;
  std::vector<at::Tensor> from;
  void add(const at::Tensor& destination, const at::Tensor& source) {
    to.push_back(destination);
    from.push_back(source);
  }
  void run(bool write) const;
};

}  // namespace ops
CAPSTAN_END_NAMESPACE
