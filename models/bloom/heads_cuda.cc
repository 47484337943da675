// The CUDA side of the operators that widen heads: tensors in, a launch out.
#include <ATen/ATen.h>
#include <capstan/ops/bias_columns.h>
#include <torch/library.h>
#include <capstan/ops/launch.cuh>

#include <algorithm>

#include "kernels.h"

namespace bloom {
namespace {

namespace cuda = capstan::ops::cuda;

at::Tensor dense_heads(const at::Tensor& x) { return x.stride(3) == 1 ? x : x.contiguous(); }

std::tuple<at::Tensor, at::Tensor> widened_cuda(const at::Tensor& fused, const at::Tensor& slopes,
                                                const at::Tensor& positions, double scale) {
  const c10::cuda::CUDAGuard guard(fused.device());
  const auto wide = capstan::ops::bias_columns(fused.size(4));
  const auto widened = [&] { return at::empty({fused.size(0), fused.size(1), fused.size(2), wide}, fused.options()); };
  const at::Tensor q = widened(), k = widened();
  if (q.numel() == 0) return {q, k};
  const WidenCall call{fused.const_data_ptr(),
                       q.data_ptr(),
                       k.data_ptr(),
                       cuda::float_type(fused),
                       fused.size(0),
                       fused.size(1),
                       static_cast<int>(fused.size(2)),
                       static_cast<int>(fused.size(4)),
                       static_cast<int>(wide),
                       slopes.const_data_ptr(),
                       positions.const_data_ptr<std::int64_t>(),
                       {positions.stride(0), positions.stride(1)},
                       scale};
  cuda::launch(widen_heads, call);
  return {q, k};
}

at::Tensor joined_cuda(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, std::int64_t dim) {
  const c10::cuda::CUDAGuard guard(q.device());
  const at::Tensor parts[] = {dense_heads(q), dense_heads(k), dense_heads(v)};
  const at::Tensor out = at::empty({q.size(0), q.size(1), q.size(2), 3, dim}, q.options());
  if (out.numel() == 0) return out;
  JoinCall call{{},
                out.data_ptr(),
                cuda::float_type(q),
                q.size(0),
                q.size(1),
                static_cast<int>(q.size(2)),
                static_cast<int>(dim)};
  std::transform(std::begin(parts), std::end(parts), call.parts, cuda::heads_at);
  cuda::launch(join_heads, call);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) {
  m.impl("bloom_heads", &widened_cuda);
  m.impl("bloom_heads_back", &joined_cuda);
}

}  // namespace bloom
