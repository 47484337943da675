#include <algorithm>

#include "ops/launch.cuh"

namespace capstan::ops::cuda {
namespace {

/// A call that writes all of `out`; what it reads is still to be named.
kernels::RotaryCall call_into(const at::Tensor& out, const at::Tensor& positions, at::ArrayRef<double> frequencies) {
  kernels::RotaryCall call{};
  call.to = heads_at(out);
  call.out = out.data_ptr();
  call.heads = call.turned = static_cast<int>(out.size(2));
  call.half = static_cast<int>(out.size(3) / 2);
  call.type = float_type(out);
  call.batch = out.size(0);
  call.length = out.size(1);
  call.positions = positions.const_data_ptr<std::int64_t>();
  std::copy(frequencies.begin(), frequencies.end(), call.frequencies.value);
  return call;
}

void turn(const kernels::RotaryCall& call, const at::Tensor& out) {
  if (out.numel() == 0) return;
  launch(kernels::rotary, call);
}

at::Tensor turn_into(const at::Tensor& out, const at::Tensor& x, const at::Tensor& positions,
                     at::ArrayRef<double> frequencies, bool inverse) {
  const c10::cuda::CUDAGuard guard(x.device());
  const at::Tensor where = positions.contiguous();
  auto call = call_into(out, where, frequencies);
  call.from[0] = heads_at(x);
  call.inverse = inverse;
  turn(call, out);
  return out;
}

at::Tensor rotary_cuda(const at::Tensor& x, const at::Tensor& positions, at::ArrayRef<double> frequencies,
                       bool inverse) {
  return turn_into(at::empty(x.sizes(), x.options()), x, positions, frequencies, inverse);
}

void turn_heads_cuda(const at::Tensor& heads, const at::Tensor& positions, at::ArrayRef<double> frequencies) {
  turn_into(heads, heads, positions, frequencies, false);
}

at::Tensor turn_heads_back_cuda(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const at::Tensor& positions, at::ArrayRef<double> frequencies) {
  const c10::cuda::CUDAGuard guard(q.device());
  const at::Tensor where = positions.contiguous();
  const at::Tensor out = at::empty({q.size(0), q.size(1), q.size(2) + k.size(2) + v.size(2), q.size(3)}, q.options());
  auto call = call_into(out, where, frequencies);
  const at::Tensor parts[] = {q, k, v};
  std::transform(std::begin(parts), std::end(parts), call.from, heads_at);
  call.turned = call.from[0].heads + call.from[1].heads;
  call.inverse = true;
  turn(call, out);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) {
  m.impl("rotary", &rotary_cuda);
  m.impl("turn_heads_", &turn_heads_cuda);
  m.impl("turn_heads_back", &turn_heads_back_cuda);
}

}  // namespace capstan::ops::cuda
