#include <algorithm>

#include "ops/alibi_heads.h"
#include "ops/launch.cuh"

namespace capstan::ops::cuda {
namespace {

at::Tensor dense_heads(const at::Tensor& x) { return x.stride(3) == 1 ? x : x.contiguous(); }

std::tuple<at::Tensor, at::Tensor> alibi_heads_cuda(const at::Tensor& fused, const at::Tensor& slopes,
                                                    const at::Tensor& positions, double scale) {
  const c10::cuda::CUDAGuard guard(fused.device());
  const auto wide = alibi_columns(fused.size(4));
  const auto widened = [&] { return at::empty({fused.size(0), fused.size(1), fused.size(2), wide}, fused.options()); };
  const at::Tensor q = widened(), k = widened();
  if (q.numel() == 0) return {q, k};
  const kernels::AlibiCall call{fused.const_data_ptr(),
                                q.data_ptr(),
                                k.data_ptr(),
                                float_type(fused),
                                fused.size(0),
                                fused.size(1),
                                static_cast<int>(fused.size(2)),
                                static_cast<int>(fused.size(4)),
                                static_cast<int>(wide),
                                slopes.const_data_ptr(),
                                positions.const_data_ptr<std::int64_t>(),
                                {positions.stride(0), positions.stride(1)},
                                scale};
  launch(kernels::alibi_heads, call);
  return {q, k};
}

at::Tensor alibi_heads_backward_cuda(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, std::int64_t dim) {
  const c10::cuda::CUDAGuard guard(q.device());
  const at::Tensor parts[] = {dense_heads(q), dense_heads(k), dense_heads(v)};
  const at::Tensor out = at::empty({q.size(0), q.size(1), q.size(2), 3, dim}, q.options());
  if (out.numel() == 0) return out;
  kernels::AlibiBackward call{
      {}, out.data_ptr(), float_type(q), q.size(0), q.size(1), static_cast<int>(q.size(2)), static_cast<int>(dim)};
  std::transform(std::begin(parts), std::end(parts), call.parts, heads_at);
  launch(kernels::alibi_heads_backward, call);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) {
  m.impl("alibi_heads", &alibi_heads_cuda);
  m.impl("alibi_heads_backward", &alibi_heads_backward_cuda);
}

}  // namespace capstan::ops::cuda
