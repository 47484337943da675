// quantise_blocks.h's kernels on tensors.
#include <torch/library.h>
#include <capstan/ops/launch.cuh>

#include "kernels.h"
#include "operators.h"

namespace fp8 {
namespace {

using capstan::ops::cuda::launch;

constexpr auto not_taken = "fp8's kernels by block do not take these tensors";

kernels::BlocksCall blocks_call(const at::Tensor& x, std::int64_t columns, const Maybe& counts) {
  kernels::BlocksCall call{};
  call.x = x.const_data_ptr();
  call.is_bfloat16 = x.scalar_type() == at::kBFloat16;
  call.rows = x.size(0);
  call.padded_rows = padded_to_blocks(x.size(0));
  call.columns = columns;
  call.counts = counts_of(counts);
  return call;
}

/// Memory for the result and for the transpose's.
Pair into(kernels::BlocksCall& call, Pair made) {
  call.values = std::get<0>(made).data_ptr();
  call.scales = std::get<1>(made).data_ptr<float>();
  call.scales_apart = std::get<1>(made).stride(0);
  return made;
}

Pair into_transposed(kernels::BlocksCall& call, Pair made) {
  call.transposed = std::get<0>(made).data_ptr();
  call.transposed_scales = std::get<1>(made).data_ptr<float>();
  call.transposed_scales_apart = std::get<1>(made).stride(0);
  return made;
}

Pair quantise_blocks_cuda(const at::Tensor& x, const Maybe& counts) {
  const c10::cuda::CUDAGuard guard(x.device());
  TORCH_CHECK(block_kernels_take(x), not_taken);
  const at::Tensor in = packed(x);
  auto call = blocks_call(in, in.size(1), counts);
  auto out = into(call, empty_blocks(in, call.padded_rows, call.columns));
  launch(kernels::quantise_blocks, call);
  return out;
}

Both quantise_blocks_both_cuda(const at::Tensor& x, const Maybe& counts) {
  const c10::cuda::CUDAGuard guard(x.device());
  TORCH_CHECK(block_kernels_take(x), not_taken);
  const at::Tensor in = packed(x);
  auto call = blocks_call(in, in.size(1), counts);
  auto rows = into(call, empty_blocks(in, call.padded_rows, call.columns));
  auto columns = into_transposed(call, empty_blocks(in, call.columns, call.padded_rows));
  launch(kernels::quantise_blocks_both, call);
  return std::tuple_cat(std::move(rows), std::move(columns));
}

Pair quantise_tiles_cuda(const at::Tensor& w, bool transposed) {
  const c10::cuda::CUDAGuard guard(w.device());
  TORCH_CHECK(block_kernels_take(w), not_taken);
  const at::Tensor in = packed(w);
  auto call = blocks_call(in, in.size(1), {});
  auto out = transposed ? into_transposed(call, empty_tiles(in, call.columns, call.rows))
                        : into(call, empty_tiles(in, call.rows, call.columns));
  launch(kernels::quantise_tiles, call);
  return out;
}

Pair quantise_swiglu_blocks_cuda(const at::Tensor& x, const Maybe& counts) {
  const c10::cuda::CUDAGuard guard(x.device());
  TORCH_CHECK(block_kernels_take(x) && x.scalar_type() == at::kBFloat16, not_taken);
  const at::Tensor in = packed(x);
  auto call = blocks_call(in, in.size(1) / 2, counts);
  auto out = into(call, empty_blocks(in, call.padded_rows, call.columns));
  launch(kernels::quantise_swiglu_blocks, call);
  return out;
}

Pair quantise_swiglu_blocks_backward_cuda(const at::Tensor& gradient, const at::Tensor& x, const Maybe& counts) {
  const c10::cuda::CUDAGuard guard(x.device());
  TORCH_CHECK(block_kernels_take(x) && x.scalar_type() == at::kBFloat16 && gradient.scalar_type() == at::kBFloat16,
              not_taken);
  const at::Tensor in = packed(x), g = packed(gradient);
  auto call = blocks_call(in, in.size(1), counts);
  auto out = into(call, empty_blocks(in, call.padded_rows, call.columns));
  launch(kernels::quantise_swiglu_blocks_backward, call, g.const_data_ptr());
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) {
  m.impl("quantise_blocks", &quantise_blocks_cuda);
  m.impl("quantise_blocks_both", &quantise_blocks_both_cuda);
  m.impl("quantise_tiles", &quantise_tiles_cuda);
  m.impl("quantise_swiglu_blocks", &quantise_swiglu_blocks_cuda);
  m.impl("quantise_swiglu_blocks_backward", &quantise_swiglu_blocks_backward_cuda);
}

}  // namespace fp8
