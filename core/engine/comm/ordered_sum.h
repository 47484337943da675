#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/group.h>

#include <ATen/core/Tensor.h>

#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace comm {

/// out[i] = parts[0][i] op parts[1][i] op …, in this order: every CPU backend reduces with this one function, so
/// that ranks as threads and ranks as processes give the same bits. `parts` and `out` are flat, have one dtype and
/// one size, and out overlaps no part but possibly parts[0] exactly. 16-bit floats are summed in float32.
void reduce_in_rank_order(const at::Tensor& out, const std::vector<at::Tensor>& parts, ReduceOp op);

/// The tensor's memory as a flat tensor of `dtype`: outside autograd, and keeping the storage alive.
at::Tensor flat_memory(const at::Tensor& tensor, at::ScalarType dtype);
inline at::Tensor flat_memory(const at::Tensor& tensor) { return flat_memory(tensor, tensor.scalar_type()); }

}  // namespace comm
CAPSTAN_END_NAMESPACE
