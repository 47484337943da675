// The CUDA side of the operators of the gated delta rule: tensors in, launches out.
#include <ATen/ATen.h>
#include <torch/library.h>
#include <capstan/ops/launch.cuh>

#include <cuda_runtime_api.h>

#include "delta_kernels.h"
#include "operators.h"

namespace qwen3_5 {
namespace {

namespace cuda = capstan::ops::cuda;

int attribute(cudaDeviceAttr which, const at::Tensor& x) {
  int value = 0;
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, x.get_device()));
  return value;
}

bool has_cuda(const at::Tensor& v) {
  return attribute(cudaDevAttrComputeCapabilityMajor, v) >= 8 &&
         attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, v) >= delta_shared_bytes();
}

// Heads that kernels read by 16 bytes, wherever they lie; a copy of others.
at::Tensor packed_heads(const at::Tensor& x) {
  return x.stride(3) == 1 && cuda::heads_at(x).fits(x.const_data_ptr(), 8, 2) ? x : x.contiguous();
}

TokenNumbers numbers_at(const at::Tensor& x) {
  return {x.const_data_ptr(), x.scalar_type() == at::kFloat, x.stride(0), x.stride(1), x.stride(2)};
}

/// A call and the tensors that it points to.
struct Room {
  DeltaCall call{};
  at::Tensor q, k, v, begins, first, last, factors, values, w, states;

  Room(at::TensorList inputs, const Maybe& begins_in, const Maybe& first_in);
  at::Tensor by_chunk(std::initializer_list<std::int64_t> shape, at::ScalarType type) const;
};

at::Tensor Room::by_chunk(std::initializer_list<std::int64_t> shape, at::ScalarType type) const {
  std::vector<std::int64_t> whole{call.batch, call.value_heads, call.chunks};
  whole.insert(whole.end(), shape);
  return at::empty(whole, v.options().dtype(type));
}

Room::Room(at::TensorList inputs, const Maybe& begins_in, const Maybe& first_in)
    : q(packed_heads(inputs[0])), k(packed_heads(inputs[1])), v(packed_heads(inputs[2])) {
  TORCH_CHECK(inputs.size() == 5 && v.scalar_type() == at::kBFloat16 && inputs[3].scalar_type() == at::kFloat,
              "the delta rule's kernels take bfloat16 heads and float32 decays");
  call.batch = static_cast<int>(v.size(0));
  call.length = static_cast<int>(v.size(1));
  call.key_heads = static_cast<int>(k.size(2));
  call.value_heads = static_cast<int>(v.size(2));
  call.dim = static_cast<int>(v.size(3));
  call.chunks = (call.length + delta_chunk - 1) / delta_chunk;
  call.q = cuda::heads_at(q);
  call.k = cuda::heads_at(k);
  call.v = cuda::heads_at(v);
  call.decay = numbers_at(inputs[3]);
  call.beta = numbers_at(inputs[4]);
  if (begins_in) {
    begins = *begins_in;
    call.begins = begins.const_data_ptr<bool>();
    call.begin_strides[0] = begins.stride(0);
    call.begin_strides[1] = begins.stride(1);
  }
  if (first_in) {
    first = first_in->contiguous();
    call.first = first.const_data_ptr<float>();
  }
  const std::int64_t dim = call.dim;
  last = at::empty({call.batch, call.value_heads, dim, dim}, v.options().dtype(at::kFloat));
  factors = by_chunk({delta_factors, delta_chunk}, at::kFloat);
  values = by_chunk({delta_chunk, dim}, at::kBFloat16);
  w = at::empty_like(values);
  states = by_chunk({dim, dim}, at::kBFloat16);
  call.last = last.data_ptr<float>();
  call.factors = factors.data_ptr<float>();
  call.u = call.written = values.data_ptr();
  call.w = w.data_ptr();
  call.states = states.data_ptr();
}

std::tuple<at::Tensor, at::Tensor> forward_cuda(at::TensorList inputs, const Maybe& begins, const Maybe& first) {
  const c10::cuda::CUDAGuard guard(inputs[2].device());
  Room room(inputs, begins, first);
  const at::Tensor out = at::empty(room.v.sizes(), room.v.options());
  room.call.out = out.data_ptr();
  cuda::launch(delta_prepare, room.call, /*for_backward=*/false);
  cuda::launch(delta_scan, room.call);
  cuda::launch(delta_output, room.call);
  return {out, room.last};
}

std::vector<at::Tensor> backward_cuda(const at::Tensor& gradient, at::TensorList inputs, const Maybe& begins,
                                      const Maybe& first, const Maybe& of_last) {
  const c10::cuda::CUDAGuard guard(inputs[2].device());
  Room room(inputs, begins, first);
  auto& call = room.call;
  const at::Tensor heads = packed_heads(gradient), of_end = of_last ? of_last->contiguous() : at::Tensor();
  call.gradient = cuda::heads_at(heads);
  if (of_last) call.of_last = of_end.const_data_ptr<float>();
  const at::Tensor inverse = room.by_chunk({delta_chunk, delta_chunk}, at::kBFloat16), own = at::empty_like(room.w),
                   after = at::empty_like(room.states), of_first = at::empty_like(room.last),
                   of_units = room.by_chunk({2, delta_chunk, call.dim}, at::kFloat);
  std::vector<at::Tensor> out;
  for (const auto& x : inputs) out.push_back(at::empty(x.sizes(), x.options()));
  out.push_back(of_first);
  call.inverse = inverse.data_ptr();
  call.own = call.of_written = own.data_ptr();
  call.states_after = after.data_ptr();
  call.of_first = of_first.data_ptr<float>();
  call.of_units = of_units.data_ptr<float>();
  call.of_q = out[0].data_ptr();
  call.of_k = out[1].data_ptr();
  call.of_v = out[2].data_ptr();
  call.of_decay = out[3].data_ptr<float>();
  call.of_beta = out[4].data_ptr();
  cuda::launch(delta_prepare, call, /*for_backward=*/true);
  for (const auto launcher : {delta_scan, delta_scan_back, delta_gradients, delta_units}) cuda::launch(launcher, call);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) {
  m.impl("has_delta_rule", &has_cuda);
  m.impl("delta_rule", &forward_cuda);
  m.impl("delta_rule_back", &backward_cuda);
}

}  // namespace qwen3_5
