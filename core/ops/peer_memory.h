#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// Where other ranks find this tensor's memory, for peer_tensor() there: uint8 on the CPU, of one length everywhere. On
/// CUDA the allocator's handle for other processes of this host, on CPU an address for threads of this process.
at::Tensor peer_address(const at::Tensor& memory);

/// Another rank's memory as a tensor of `like`'s length, dtype and device; undefined where it cannot be reached from
/// here. It holds the memory.
at::Tensor peer_tensor(const at::Tensor& address, const at::Tensor& like);

/// to[i] becomes from[i], of the same dtype and contiguous; on CUDA by copy engines, queued on the current stream.
void copy_pieces(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from);

}  // namespace ops
CAPSTAN_END_NAMESPACE
