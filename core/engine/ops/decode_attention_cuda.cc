#include "ops/launch.cuh"

namespace capstan::ops::cuda {
namespace {

// [B, heads, 1, dim] as a kernel reads them, by packs of 16 bytes; `kept` holds the memory.
kernels::Heads packed_heads(const at::Tensor& x, at::Tensor& kept) {
  const auto width = static_cast<int>(16 / x.element_size());
  kept = x.transpose(1, 2);
  const auto heads = [&] { return heads_at(kept); };
  const bool fits = x.stride(3) == 1 && heads().fits(x.const_data_ptr(), width, x.element_size());
  if (!fits) kept = kept.clone(at::MemoryFormat::Contiguous);
  return heads();
}

at::Tensor decode_attention_cuda(const at::Tensor& q, at::TensorList token, at::TensorList cache,
                                 const at::Tensor& positions, const Maybe& slopes, at::ArrayRef<double> numbers) {
  const c10::cuda::CUDAGuard guard(q.device());
  const at::Tensor out = at::empty({q.size(0), 1, q.size(1), q.size(3)}, q.options());
  at::Tensor kept[3], partial;
  const at::Tensor where = positions.contiguous();
  const auto blocks = kernels::parts_of(cache[0].size(2), kernels::decode_keys);
  if (blocks > 1) partial = at::empty({q.size(0), q.size(1), blocks, q.size(3) + 2}, q.options().dtype(sum_type(q)));
  const kernels::DecodeCall call{packed_heads(q, kept[0]),
                                 packed_heads(token[0], kept[1]),
                                 packed_heads(token[1], kept[2]),
                                 cache[0].data_ptr(),
                                 cache[1].data_ptr(),
                                 out.data_ptr(),
                                 blocks > 1 ? partial.data_ptr() : nullptr,
                                 float_type(q),
                                 where.const_data_ptr<std::int64_t>(),
                                 data_of(slopes),
                                 q.size(0),
                                 cache[0].size(2),
                                 static_cast<std::int64_t>(numbers[1]),
                                 static_cast<int>(q.size(3)),
                                 numbers[0]};
  if (out.numel() > 0) launch(kernels::decode_attention, call);
  return out.transpose(1, 2);
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) { m.impl("decode_attention", &decode_attention_cuda); }

}  // namespace capstan::ops::cuda
