// Page-locked host memory of exactly the size that is asked for.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>
#include <sys/mman.h>
#include <torch/library.h>

#include <utility>

namespace capstan::ops::cuda {
namespace {

/// An anonymous mapping, locked for the GPU.
class Locked {
 public:
  explicit Locked(std::size_t bytes) : bytes_(bytes) {
    data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TORCH_CHECK(data_ != MAP_FAILED, "no ", bytes, " bytes of host memory for offloading");
    const auto status = cudaHostRegister(data_, bytes, cudaHostRegisterPortable);
    if (status == cudaSuccess) return;
    ::munmap(data_, bytes_);
    (void)cudaGetLastError();
    TORCH_CHECK(false, "cannot lock ", bytes, " bytes of host memory (", cudaGetErrorString(status),
                "): raise the limit of locked memory (ulimit -l), or set pin_memory = false");
  }
  ~Locked() {
    (void)cudaHostUnregister(data_);
    ::munmap(data_, bytes_);
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

at::Tensor pinned_bytes_cuda(std::int64_t bytes, const at::Tensor& on_device) {
  const c10::cuda::CUDAGuard guard(on_device.device());
  auto locked = std::make_shared<Locked>(static_cast<std::size_t>(bytes));
  void* data = locked->data();
  return at::from_blob(
      data, {bytes}, [locked = std::move(locked)](void*) mutable { locked.reset(); },
      at::TensorOptions().dtype(at::kByte));
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) { m.impl("pinned_bytes", &pinned_bytes_cuda); }

}  // namespace capstan::ops::cuda
