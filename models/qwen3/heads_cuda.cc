// The operators' CUDA side: tensors in, a launch out.
#include <ATen/ATen.h>
#include <torch/library.h>
#include <capstan/ops/launch.cuh>

#include <algorithm>

#include "kernels.h"

namespace qwen3 {
namespace {

namespace cuda = capstan::ops::cuda;

// A vector that begins anywhere is copied, so that it can be read by 16 bytes.
at::Tensor at_whole_packs(const at::Tensor& norm) { return cuda::is_packed(norm) ? norm : norm.clone(); }

struct Vectors {
  at::Tensor query, key, positions;
};

Vectors vectors_of(at::TensorList norms, const at::Tensor& positions) {
  return {at_whole_packs(norms[0]), at_whole_packs(norms[1]), positions.contiguous()};
}

HeadsCall call_of(const at::Tensor& fused, const at::Tensor& out, const Vectors& vectors, double epsilon,
                  at::ArrayRef<double> frequencies) {
  TORCH_CHECK(frequencies.size() <= Frequencies::capacity, "heads have too many features: ", fused.size(3));
  HeadsCall call{};
  call.fused = cuda::heads_at(fused);
  call.out = out.data_ptr();
  call.norms[0] = vectors.query.const_data_ptr();
  call.norms[1] = vectors.key.const_data_ptr();
  call.type = cuda::float_type(fused);
  call.half = static_cast<int>(fused.size(3) / 2);
  call.batch = fused.size(0);
  call.length = fused.size(1);
  call.positions = vectors.positions.const_data_ptr<std::int64_t>();
  call.epsilon = epsilon;
  std::copy(frequencies.begin(), frequencies.end(), call.frequencies.value);
  return call;
}

at::Tensor forward_cuda(const at::Tensor& fused, at::TensorList norms, const at::Tensor& positions,
                        at::IntArrayRef counts, double epsilon, at::ArrayRef<double> frequencies) {
  const c10::cuda::CUDAGuard guard(fused.device());
  const auto vectors = vectors_of(norms, positions);
  at::Tensor out = at::empty({fused.size(0), fused.size(1), counts[0] + counts[1], fused.size(3)}, fused.options());
  if (out.numel() == 0) return out;
  auto call = call_of(fused, out, vectors, epsilon, frequencies);
  call.queries = static_cast<int>(counts[0]);
  call.keys = static_cast<int>(counts[1]);
  cuda::launch(normed_heads, call);
  return out;
}

at::Tensor backward_cuda(at::TensorList gradients, const at::Tensor& fused, at::TensorList norms,
                         const at::Tensor& positions, double epsilon, at::ArrayRef<double> frequencies) {
  const c10::cuda::CUDAGuard guard(fused.device());
  const auto vectors = vectors_of(norms, positions);
  at::Tensor out = at::empty(fused.sizes(), fused.options());
  if (out.numel() == 0) return out;
  auto call = call_of(fused, out, vectors, epsilon, frequencies);
  std::transform(gradients.begin(), gradients.end(), call.gradients, cuda::heads_at);
  call.queries = call.gradients[0].heads;
  call.keys = call.gradients[1].heads;
  call.rest = call.gradients[2].heads;
  cuda::launch(normed_heads_back, call);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) {
  m.impl("qwen3_heads", &forward_cuda);
  m.impl("qwen3_heads_back", &backward_cuda);
}

}  // namespace qwen3
