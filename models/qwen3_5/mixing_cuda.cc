// The CUDA side of the operators of the convolution and the gate: tensors in, a launch out.
#include <ATen/ATen.h>
#include <torch/library.h>
#include <capstan/ops/launch.cuh>

#include "mixing_kernels.h"
#include "operators.h"

namespace qwen3_5 {
namespace {

namespace cuda = capstan::ops::cuda;
using capstan::kernels::parts_of;

constexpr std::int64_t pack = 8;

at::Tensor packed(const at::Tensor& x) {
  return x.is_contiguous() && cuda::is_packed(x) ? x : x.clone(at::MemoryFormat::Contiguous);
}

// Channels side by side that are read by 16 bytes, wherever tokens lie.
at::Tensor packed_tokens(const at::Tensor& x) {
  const bool fits = x.stride(2) == 1 && x.stride(0) % pack == 0 && x.stride(1) % pack == 0 && cuda::is_packed(x);
  return fits ? x : x.clone(at::MemoryFormat::Contiguous);
}

/// A call and the tensors that it points to.
struct ConvolutionRoom {
  ConvolutionCall call{};
  at::Tensor x, w, positions;
  ConvolutionRoom(const at::Tensor& x_in, const at::Tensor& w_in, const Maybe& positions_in)
      : x(packed_tokens(x_in)), w(packed(w_in)) {
    TORCH_CHECK(w.size(-1) == convolution_taps && x.size(2) % pack == 0 && w.scalar_type() == x.scalar_type(),
                "the convolution's kernel takes four taps and whole packs of channels, of one dtype");
    call.type = cuda::float_type(x);
    call.batch = x.size(0);
    call.length = x.size(1);
    call.channels = x.size(2);
    call.x = x.const_data_ptr();
    call.w = w.const_data_ptr();
    call.batch_stride = x.stride(0);
    call.token_stride = x.stride(1);
    if (!positions_in) return;
    positions = *positions_in;
    call.positions = positions.const_data_ptr<std::int64_t>();
    call.position_strides[0] = positions.stride(0);
    call.position_strides[1] = positions.stride(1);
  }
};

at::Tensor convolution_cuda(const at::Tensor& x, const at::Tensor& w, const Maybe& positions) {
  const c10::cuda::CUDAGuard guard(x.device());
  ConvolutionRoom room(x, w, positions);
  const at::Tensor out = at::empty(x.sizes(), x.options());
  room.call.out = out.data_ptr();
  cuda::launch(convolution, room.call);
  return out;
}

std::tuple<at::Tensor, at::Tensor> convolution_back_cuda(const at::Tensor& gradient, const at::Tensor& x,
                                                         const at::Tensor& w, const Maybe& positions, bool of_w) {
  const c10::cuda::CUDAGuard guard(x.device());
  ConvolutionRoom room(x, w, positions);
  const at::Tensor whole = packed(gradient), of_x = at::empty(x.sizes(), x.options());
  room.call.gradient = whole.const_data_ptr();
  room.call.of_x = of_x.data_ptr();
  const auto parts = x.size(0) * parts_of(x.size(1), convolution_run);
  const at::Tensor sums = at::empty({of_w ? parts : 0, x.size(2), 1, convolution_taps}, x.options().dtype(at::kFloat));
  if (of_w) room.call.of_w = sums.data_ptr<float>();
  cuda::launch(convolution_back, room.call);
  return {of_x, of_w ? sums.sum(0).to(w.scalar_type()) : at::empty({0}, w.options())};
}

// Rows of z: as many numbers as x's last dimensions have, that lie side by side. A copy of others.
struct GateRoom {
  GateCall call{};
  at::Tensor x, z;
  GateRoom(const at::Tensor& x_in, const at::Tensor& z_in) : x(packed(x_in)), z(z_in) {
    TORCH_CHECK(x.sizes() == z.sizes() && x.scalar_type() == z.scalar_type(), "the gate takes two of one shape");
    call.type = cuda::float_type(x);
    call.columns = 1;
    auto axis = z.dim();
    while (axis > 0 && z.stride(axis - 1) == call.columns) call.columns *= z.size(--axis);
    call.rows = x.numel() / call.columns;
    call.z_stride = axis > 0 ? z.stride(axis - 1) : call.columns;
    bool is_even = call.columns % pack == 0 && call.z_stride % pack == 0 && cuda::is_packed(z);
    for (auto i = axis - 1; i > 0; --i) is_even = is_even && z.stride(i - 1) == z.stride(i) * z.size(i);
    if (!is_even) {
      z = z.clone(at::MemoryFormat::Contiguous);
      call.rows = 1;
      call.columns = call.z_stride = x.numel();
    }
    call.x = x.const_data_ptr();
    call.z = z.const_data_ptr();
  }
};

at::Tensor gate_cuda(const at::Tensor& x, const at::Tensor& z) {
  const c10::cuda::CUDAGuard guard(x.device());
  GateRoom room(x, z);
  const at::Tensor out = at::empty(x.sizes(), x.options());
  room.call.out = out.data_ptr();
  cuda::launch(gate, room.call);
  return out;
}

std::tuple<at::Tensor, at::Tensor> gate_back_cuda(const at::Tensor& gradient, const at::Tensor& x,
                                                  const at::Tensor& z) {
  const c10::cuda::CUDAGuard guard(x.device());
  GateRoom room(x, z);
  const at::Tensor whole = packed(gradient), of_x = at::empty(x.sizes(), x.options()), of_z = at::empty_like(of_x);
  room.call.gradient = whole.const_data_ptr();
  room.call.of_x = of_x.data_ptr();
  room.call.of_z = of_z.data_ptr();
  cuda::launch(gate_back, room.call);
  return {of_x, of_z};
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) {
  m.impl("silu_convolution", &convolution_cuda);
  m.impl("silu_convolution_back", &convolution_back_cuda);
  m.impl("silu_gate", &gate_cuda);
  m.impl("silu_gate_back", &gate_back_cuda);
}

}  // namespace qwen3_5
