// The CUDA side of what decoder blocks compute beside their products, and of AdamW: tensors in, launches out.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <capstan/base/error.h>
#include <torch/library.h>

#include <algorithm>

#include "kernels/launchers.h"
#include "ops/add_norm.h"
#include "ops/alibi_heads.h"
#include "ops/cuda_tensors.h"
#include "ops/operators.h"

namespace capstan::ops::cuda {
namespace {

using Maybe = std::optional<at::Tensor>;

CUstream_st* stream() { return c10::cuda::getCurrentCUDAStream().stream(); }

kernels::Heads heads_at(const at::Tensor& x) {
  CAPSTAN_ASSERT(x.dim() == 4 && x.stride(3) == 1);
  return {x.const_data_ptr(), static_cast<int>(x.size(2)), x.stride(0), x.stride(1), x.stride(2)};
}

at::Tensor dense_heads(const at::Tensor& x) { return x.stride(3) == 1 ? x : x.contiguous(); }

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
  kernels::rotary(call, stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

at::Tensor rotary_cuda(const at::Tensor& x, const at::Tensor& positions, at::ArrayRef<double> frequencies,
                       bool inverse) {
  const c10::cuda::CUDAGuard guard(x.device());
  const at::Tensor where = positions.contiguous(), out = at::empty(x.sizes(), x.options());
  auto call = call_into(out, where, frequencies);
  call.from[0] = heads_at(x);
  call.inverse = inverse;
  turn(call, out);
  return out;
}

void turn_heads_cuda(const at::Tensor& heads, const at::Tensor& positions, at::ArrayRef<double> frequencies) {
  const c10::cuda::CUDAGuard guard(heads.device());
  const at::Tensor where = positions.contiguous();
  auto call = call_into(heads, where, frequencies);
  call.from[0] = heads_at(heads);
  turn(call, heads);
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
  kernels::alibi_heads(call, stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
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
  kernels::alibi_heads_backward(call, stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

bool is_packed(const at::Tensor& x) {
  constexpr std::uintptr_t pack = 16;
  return reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % pack == 0;
}

const void* data_of(const Maybe& x) { return x ? x->const_data_ptr() : nullptr; }

at::Tensor row_numbers(const at::Tensor& x) {
  auto shape = x.sizes().vec();
  shape.back() = 1;
  return at::empty(shape, x.options().dtype(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat));
}

bool takes_norm(const at::Tensor& x, const Maybe& other, const at::Tensor& weight) {
  return x.numel() > 0 && norm_fits(float_type(x), x.size(-1)) && is_packed(x) && is_packed(weight) &&
         (!other || is_packed(*other));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> add_norm_cuda(const at::Tensor& x_any, const Maybe& y_any,
                                                                         const at::Tensor& weight, const Maybe& bias,
                                                                         double epsilon) {
  const c10::cuda::CUDAGuard guard(x_any.device());
  const at::Tensor x = x_any.contiguous();
  const Maybe y = y_any ? Maybe(y_any->contiguous()) : std::nullopt;
  if (!takes_norm(x, y, weight) || (bias && !is_packed(*bias))) return plain_add_norm(x, y, weight, bias, epsilon);
  const at::Tensor sum = y ? at::empty_like(x) : at::Tensor(), out = at::empty_like(x);
  const at::Tensor mean = bias ? row_numbers(x) : at::Tensor(), rstd = row_numbers(x);
  const kernels::NormCall call{x.const_data_ptr(),
                               data_of(y),
                               weight.const_data_ptr(),
                               data_of(bias),
                               y ? sum.data_ptr() : nullptr,
                               out.data_ptr(),
                               bias ? mean.data_ptr() : nullptr,
                               rstd.data_ptr(),
                               float_type(x),
                               rstd.numel(),
                               static_cast<int>(x.size(-1)),
                               epsilon};
  kernels::add_norm(call, stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {sum, out, mean, rstd};
}

at::Tensor add_norm_backward_cuda(const Maybe& residual_any, const at::Tensor& normed_any, const at::Tensor& sum_any,
                                  const Maybe& mean, const at::Tensor& rstd, const at::Tensor& weight) {
  const c10::cuda::CUDAGuard guard(sum_any.device());
  const at::Tensor normed = normed_any.contiguous(), sum = sum_any.contiguous();
  const Maybe residual = residual_any ? Maybe(residual_any->contiguous()) : std::nullopt;
  if (!takes_norm(sum, residual, weight) || !is_packed(normed))
    return plain_add_norm_backward(residual, normed, sum, mean, rstd, weight);
  at::Tensor out = at::empty_like(sum);
  const kernels::NormBackward call{
      data_of(residual), normed.const_data_ptr(),       sum.const_data_ptr(), weight.const_data_ptr(),
      data_of(mean),     rstd.const_data_ptr(),         out.data_ptr(),       float_type(sum),
      rstd.numel(),      static_cast<int>(sum.size(-1))};
  kernels::add_norm_backward(call, stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> group_rows_cuda(const at::Tensor& group, std::int64_t groups) {
  const c10::cuda::CUDAGuard guard(group.device());
  const at::Tensor order = at::empty_like(group), place = at::empty_like(group);
  const at::Tensor counts = at::empty({groups}, group.options());
  kernels::group_rows({group.const_data_ptr<std::int64_t>(), order.data_ptr<std::int64_t>(),
                       place.data_ptr<std::int64_t>(), counts.data_ptr<std::int64_t>(), group.numel(), groups},
                      stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {order, place, counts};
}

at::Tensor combine_rows_cuda(const at::Tensor& rows, const at::Tensor& place, const Maybe& weights,
                             std::int64_t copies) {
  const c10::cuda::CUDAGuard guard(rows.device());
  at::Tensor out = at::empty({place.numel() / copies, rows.size(1)}, rows.options());
  if (out.numel() == 0) return out;
  const kernels::CombineCall call{rows.const_data_ptr(), place.const_data_ptr<std::int64_t>(),
                                  data_of(weights),      out.data_ptr(),
                                  float_type(rows),      out.size(0),
                                  rows.size(1),          static_cast<int>(copies)};
  kernels::combine_rows(call, stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

std::tuple<at::Tensor, at::Tensor> combine_rows_backward_cuda(const at::Tensor& gradient, const at::Tensor& rows,
                                                              const at::Tensor& order, const at::Tensor& weights) {
  const c10::cuda::CUDAGuard guard(rows.device());
  const at::Tensor of_rows = at::empty_like(rows), of_weights = at::empty_like(weights);
  if (rows.numel() == 0) return {of_rows, of_weights.zero_()};
  const kernels::CombineBackward call{gradient.const_data_ptr(),
                                      rows.const_data_ptr(),
                                      order.const_data_ptr<std::int64_t>(),
                                      weights.const_data_ptr(),
                                      of_rows.data_ptr(),
                                      of_weights.data_ptr(),
                                      float_type(rows),
                                      rows.size(0),
                                      rows.size(1),
                                      static_cast<int>(weights.size(1))};
  kernels::combine_rows_backward(call, stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {of_rows, of_weights};
}

/// Enough parts for a few thread blocks on each multiprocessor, of no fewer than eight rows.
int column_parts(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t blocks = 528, tile = 256, fewest = 8;
  const auto tiles = (columns + tile - 1) / tile;
  return static_cast<int>(std::clamp<std::int64_t>(blocks / tiles, 1, std::max<std::int64_t>(1, rows / fewest)));
}

void sum_columns(kernels::ColumnCall call, const at::Tensor& x, const at::Tensor& parts) {
  call.x = x.const_data_ptr();
  call.parts = parts.data_ptr();
  call.type = float_type(x);
  call.columns = x.size(-1);
  call.rows = x.numel() / call.columns;
  call.count = static_cast<int>(parts.size(1));
  kernels::column_sums(call, stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

at::Tensor parts_for(const at::Tensor& x, std::int64_t results) {
  const auto type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return at::empty({results, column_parts(x.numel() / x.size(-1), x.size(-1)), x.size(-1)}, x.options().dtype(type));
}

at::Tensor column_sums_cuda(const at::Tensor& x) {
  const c10::cuda::CUDAGuard guard(x.device());
  at::Tensor out = at::empty({x.size(1)}, x.options());
  if (x.numel() == 0) return out.zero_();
  kernels::ColumnCall call{};
  call.out = out.data_ptr();
  sum_columns(call, x, parts_for(x, 1));
  return out;
}

std::tuple<at::Tensor, at::Tensor> norm_weight_sums_cuda(const at::Tensor& gradient, const at::Tensor& x,
                                                         const Maybe& mean, const at::Tensor& rstd) {
  const c10::cuda::CUDAGuard guard(x.device());
  const auto one = [&] { return at::empty({x.size(-1)}, x.options()); };
  const at::Tensor weight = one(), bias = mean ? one() : at::Tensor();
  if (x.numel() == 0) return {weight.zero_(), mean ? bias.zero_() : bias};
  kernels::ColumnCall call{};
  call.of = x.const_data_ptr();
  call.mean = data_of(mean);
  call.rstd = rstd.const_data_ptr();
  call.out = weight.data_ptr();
  call.second = mean ? bias.data_ptr() : nullptr;
  sum_columns(call, gradient, parts_for(x, mean ? 2 : 1));
  return {weight, bias};
}

at::Tensor scaled_cuda(const at::Tensor& x, const at::Tensor& factor, at::ScalarType type) {
  const c10::cuda::CUDAGuard guard(x.device());
  const at::Tensor in = is_packed(x) ? x : x.clone();
  at::Tensor out = at::empty(x.sizes(), x.options().dtype(type));
  if (x.numel() == 0) return out;
  kernels::scaled(out.data_ptr(), float_type(out), in.const_data_ptr<float>(), factor.const_data_ptr<float>(),
                  x.numel(), stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

/// The list of as many tensors from `begin` on as one launch takes.
void fill(kernels::AdamwList& list, std::size_t begin, at::TensorList masters, at::TensorList states,
          at::TensorList gradients, at::TensorList copies) {
  list.count = 0;
  for (std::size_t i = begin; i < masters.size() && list.count < kernels::AdamwList::capacity; ++i, ++list.count) {
    const auto n = masters[i].numel();
    list.master[list.count] = masters[i].data_ptr();
    list.average[list.count] = states[i].data_ptr();
    list.square[list.count] = states[masters.size() + i].data_ptr();
    list.grad[list.count] = gradients[i].const_data_ptr();
    list.copy[list.count] = copies.empty() ? nullptr : copies[i].data_ptr();
    list.numel[list.count] = n;
    list.first_block[list.count + 1] =
        list.first_block[list.count] + (n + kernels::AdamwList::block - 1) / kernels::AdamwList::block;
  }
}

void adamw_lists_cuda(at::TensorList masters, at::TensorList states, at::TensorList gradients, at::TensorList copies,
                      at::ArrayRef<double> step, at::TensorList numbers) {
  const c10::cuda::CUDAGuard guard(masters.front().device());
  const auto number = [&](std::size_t i) { return static_cast<float>(step[i]); };
  const auto on_device = [&](std::size_t i) { return numbers[i].const_data_ptr<float>(); };
  kernels::AdamwList list;
  list.by = {number(0), number(1), number(2), number(3), number(4), on_device(0), on_device(1), on_device(2)};
  const auto gradient_type = float_type(gradients.front());
  const auto narrow =
      gradient_type == kernels::FloatType::half ? kernels::FloatType::half : kernels::FloatType::bfloat16;
  const kernels::AdamwTypes types{float_type(masters.front()), gradient_type,
                                  copies.empty() ? narrow : float_type(copies.front())};
  for (std::size_t begin = 0; begin < masters.size(); begin += kernels::AdamwList::capacity) {
    fill(list, begin, masters, states, gradients, copies);
    kernels::adamw_lists(list, types, stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) {
  m.impl("rotary", &rotary_cuda);
  m.impl("turn_heads_", &turn_heads_cuda);
  m.impl("turn_heads_back", &turn_heads_back_cuda);
  m.impl("alibi_heads", &alibi_heads_cuda);
  m.impl("alibi_heads_backward", &alibi_heads_backward_cuda);
  m.impl("add_norm", &add_norm_cuda);
  m.impl("add_norm_backward", &add_norm_backward_cuda);
  m.impl("group_rows", &group_rows_cuda);
  m.impl("combine_rows", &combine_rows_cuda);
  m.impl("combine_rows_backward", &combine_rows_backward_cuda);
  m.impl("column_sums", &column_sums_cuda);
  m.impl("norm_weight_sums", &norm_weight_sums_cuda);
  m.impl("scaled", &scaled_cuda);
  m.impl("adamw_lists_", &adamw_lists_cuda);
}

}  // namespace capstan::ops::cuda
