// quantise_blocks.h's kernels on tensors.
#include "ops/quantise_blocks.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <cstdint>
#include <tuple>

#include "kernels/quantise_blocks.h"
#include "ops/cuda_tensors.h"

namespace capstan::ops::cuda {
namespace {

using MaybeNumbers = std::optional<at::Tensor>;

CUstream_st* blocks_stream() { return c10::cuda::getCurrentCUDAStream().stream(); }

/// Rows, padded to whole blocks, are in parts of 32 and 128 a dimension of the grid.
bool block_kernels_take(const at::Tensor& x) {
  constexpr std::int64_t most_rows = std::int64_t{65535} * 32;
  const auto type = x.scalar_type();
  return (type == at::kBFloat16 || type == at::kFloat) && x.numel() > 0 && padded_to_blocks(x.size(0)) <= most_rows;
}

/// Contiguous, and at whole 16 bytes.
at::Tensor whole_packs(const at::Tensor& x) {
  constexpr std::uintptr_t pack = 16;
  const at::Tensor in = x.contiguous();
  return reinterpret_cast<std::uintptr_t>(in.const_data_ptr()) % pack == 0 ? in : in.clone();
}

kernels::BlocksCall blocks_call(const at::Tensor& x, std::int64_t columns, const MaybeNumbers& counts) {
  kernels::BlocksCall call{};
  call.x = x.const_data_ptr();
  call.type = float_type(x);
  call.rows = x.size(0);
  call.padded_rows = padded_to_blocks(x.size(0));
  call.columns = columns;
  call.counts = counts ? counts->data_ptr<std::int64_t>() : nullptr;
  return call;
}

/// Memory for the result and for the transpose's.
BlockPair into(kernels::BlocksCall& call, BlockPair made) {
  call.values = std::get<0>(made).data_ptr();
  call.scales = std::get<1>(made).data_ptr<float>();
  call.scales_apart = std::get<1>(made).stride(0);
  return made;
}

BlockPair into_transposed(kernels::BlocksCall& call, BlockPair made) {
  call.transposed = std::get<0>(made).data_ptr();
  call.transposed_scales = std::get<1>(made).data_ptr<float>();
  call.transposed_scales_apart = std::get<1>(made).stride(0);
  return made;
}

BlockPair quantise_blocks_cuda(const at::Tensor& x, const MaybeNumbers& counts) {
  const c10::cuda::CUDAGuard guard(x.device());
  if (!block_kernels_take(x)) return plain_quantise_blocks(x, counts);
  const at::Tensor in = whole_packs(x);
  auto call = blocks_call(in, in.size(1), counts);
  auto out = into(call, empty_blocks(in, call.padded_rows, call.columns));
  kernels::quantise_blocks(call, blocks_stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

BlockPairs quantise_blocks_both_cuda(const at::Tensor& x, const MaybeNumbers& counts) {
  const c10::cuda::CUDAGuard guard(x.device());
  if (!block_kernels_take(x)) return plain_quantise_blocks_both(x, counts);
  const at::Tensor in = whole_packs(x);
  auto call = blocks_call(in, in.size(1), counts);
  auto rows = into(call, empty_blocks(in, call.padded_rows, call.columns));
  auto columns = into_transposed(call, empty_blocks(in, call.columns, call.padded_rows));
  kernels::quantise_blocks_both(call, blocks_stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return std::tuple_cat(std::move(rows), std::move(columns));
}

BlockPair quantise_tiles_cuda(const at::Tensor& w, bool transposed) {
  const c10::cuda::CUDAGuard guard(w.device());
  if (!block_kernels_take(w)) return plain_quantise_tiles(w, transposed);
  const at::Tensor in = whole_packs(w);
  auto call = blocks_call(in, in.size(1), {});
  auto out = transposed ? into_transposed(call, empty_tiles(in, call.columns, call.rows))
                        : into(call, empty_tiles(in, call.rows, call.columns));
  kernels::quantise_tiles(call, blocks_stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

BlockPair quantise_swiglu_blocks_cuda(const at::Tensor& x, const MaybeNumbers& counts) {
  const c10::cuda::CUDAGuard guard(x.device());
  if (!block_kernels_take(x) || x.scalar_type() != at::kBFloat16) return plain_quantise_swiglu_blocks(x, counts);
  const at::Tensor in = whole_packs(x);
  auto call = blocks_call(in, in.size(1) / 2, counts);
  auto out = into(call, empty_blocks(in, call.padded_rows, call.columns));
  kernels::quantise_swiglu_blocks(call, blocks_stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

BlockPair quantise_swiglu_blocks_backward_cuda(const at::Tensor& gradient, const at::Tensor& x,
                                               const MaybeNumbers& counts) {
  const c10::cuda::CUDAGuard guard(x.device());
  if (!block_kernels_take(x) || x.scalar_type() != at::kBFloat16 || gradient.scalar_type() != at::kBFloat16)
    return plain_quantise_swiglu_blocks_backward(gradient, x, counts);
  const at::Tensor in = whole_packs(x), g = whole_packs(gradient);
  auto call = blocks_call(in, in.size(1), counts);
  auto out = into(call, empty_blocks(in, call.padded_rows, call.columns));
  kernels::quantise_swiglu_blocks_backward(call, g.const_data_ptr(), blocks_stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
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

}  // namespace capstan::ops::cuda
