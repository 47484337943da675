// Memory of the other ranks on this host, and copies by the GPU's copy engines.
#include <ATen/ATen.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <torch/library.h>

#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "ops/operators.h"

namespace capstan::ops::cuda {
namespace {

constexpr std::size_t longest_handle = 256;

/// The host's boot tells hosts apart: two may have one name.
struct RemoteAddress {
  char boot[40];
  std::int64_t offset;
  std::int64_t length;  ///< of the handle; -1: the allocator gives none
  char handle[longest_handle];
};

std::string boot_id() {
  std::string line;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id") >> std::ws, line);
  return line.substr(0, sizeof(RemoteAddress::boot) - 1);
}

at::Tensor peer_address_cuda(const at::Tensor& memory) {
  const c10::cuda::CUDAGuard guard(memory.device());
  RemoteAddress address{};
  address.length = -1;
  boot_id().copy(address.boot, sizeof(address.boot) - 1);
  try {
    const auto shared = c10::cuda::CUDACachingAllocator::shareIpcHandle(memory.data_ptr());
    if (shared.handle.size() <= longest_handle) {
      address.offset = shared.offset;
      address.length = static_cast<std::int64_t>(shared.handle.size());
      shared.handle.copy(address.handle, longest_handle);
    }
  } catch (const std::exception&) {  // memory that other processes cannot open: said by the length
    (void)cudaGetLastError();
  }
  at::Tensor bytes = at::empty({sizeof(address)}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), &address, sizeof(address));
  return bytes;
}

at::Tensor peer_tensor_cuda(const at::Tensor& bytes, const at::Tensor& like) {
  const c10::cuda::CUDAGuard guard(like.device());
  RemoteAddress address{};
  TORCH_CHECK(bytes.numel() == sizeof(address), "not an address of GPU memory");
  std::memcpy(&address, bytes.const_data_ptr(), sizeof(address));
  const auto nothing = [&] { return at::empty({0}, like.options()); };
  if (address.length < 0 || boot_id() != address.boot) return nothing();
  try {
    auto memory = c10::cuda::CUDACachingAllocator::getIpcDevPtr(
        std::string(address.handle, static_cast<std::size_t>(address.length)));
    auto* data = static_cast<char*>(memory.get()) + address.offset;
    // The memory is another GPU's; as one of this GPU's, copies to this one are of one device and need no peer's
    // stream.
    return at::from_blob(
        data, like.sizes(), [memory = std::move(memory)](void*) mutable { memory.reset(); }, like.options(),
        like.device());
  } catch (const std::exception&) {  // GPUs that do not reach each other
    (void)cudaGetLastError();
    return nothing();
  }
}

void copy_pieces_cuda(at::TensorList to, at::TensorList from) {
  const c10::cuda::CUDAGuard guard(to.front().device());
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  std::vector<void*> targets;
  std::vector<const void*> sources;
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (to[i].numel() == 0) continue;
    targets.push_back(to[i].mutable_data_ptr());
    sources.push_back(from[i].const_data_ptr());
    sizes.push_back(to[i].nbytes());
  }
  if (targets.empty()) return;
  if (stream == nullptr) {  // the default stream takes no batches
    for (std::size_t i = 0; i < targets.size(); ++i)
      C10_CUDA_CHECK(cudaMemcpyAsync(targets[i], sources[i], sizes[i], cudaMemcpyDeviceToDevice, stream));
    return;
  }
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  attributes.flags = cudaMemcpyFlagPreferOverlapWithCompute;
  std::size_t all = 0;
  C10_CUDA_CHECK(
      cudaMemcpyBatchAsync(targets.data(), sources.data(), sizes.data(), targets.size(), &attributes, &all, 1, stream));
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) {
  m.impl("peer_address", &peer_address_cuda);
  m.impl("peer_tensor", &peer_tensor_cuda);
  m.impl("copy_pieces", &copy_pieces_cuda);
}

}  // namespace capstan::ops::cuda
