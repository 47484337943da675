// Shape rules for ATen operators whose own rules are written in Python: with them a model runs on the meta device,
// where tensors have shapes and no memory. They describe the GPU's kernels: what these keep and return.
#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include "ops/operator.h"
#include "predict/work_counter.h"

namespace capstan::predict {
namespace {

at::Tensor index_select(const at::Tensor& x, std::int64_t dim, const at::Tensor& index) {
  auto shape = x.sizes().vec();
  if (!shape.empty()) shape[static_cast<std::size_t>(at::maybe_wrap_dim(dim, x.dim()))] = index.numel();
  return at::empty(shape, x.options());
}

at::Tensor embedding_dense_backward(const at::Tensor& gradient, const at::Tensor&, std::int64_t rows, std::int64_t,
                                    bool) {
  return at::empty({rows, gradient.size(-1)}, gradient.options());
}

at::Tensor repeat_interleave(const at::Tensor& repeats, std::optional<std::int64_t> output_size) {
  TORCH_CHECK_NOT_IMPLEMENTED(output_size.has_value(), "repeat_interleave on meta tensors needs output_size");
  return at::empty({*output_size}, repeats.options());
}

at::Tensor logical_not(const at::Tensor& x) { return at::empty(x.sizes(), x.options().dtype(at::kBool)); }

at::Tensor logical_or(const at::Tensor& a, const at::Tensor& b) {
  return at::empty(at::infer_size(a.sizes(), b.sizes()), a.options().dtype(at::kBool));
}

// One of the two may be a number, a tensor of the host.
at::Tensor floor_divide(const at::Tensor& a, const at::Tensor& b) {
  const auto options = (a.is_meta() ? a : b).options();
  return at::empty(at::infer_size(a.sizes(), b.sizes()), options.dtype(at::result_type(a, b)));
}

at::Tensor where(const at::Tensor& condition, const at::Tensor& x, const at::Tensor& y) {
  const auto both = at::infer_size(x.sizes(), y.sizes());
  return at::empty(at::infer_size(condition.sizes(), both), condition.options().dtype(at::result_type(x, y)));
}

using Maybe = std::optional<at::Tensor>;

at::Tensor scaled_mm(const at::Tensor& a, const at::Tensor& b, const at::Tensor&, const at::Tensor&, const Maybe&,
                     const Maybe&, std::optional<at::ScalarType> type, bool) {
  return at::empty({a.size(0), b.size(1)}, a.options().dtype(type.value_or(a.scalar_type())));
}

at::Tensor scaled_mm_of_blocks(const at::Tensor& a, const at::Tensor& b, at::TensorList, at::IntArrayRef,
                               at::IntArrayRef, at::TensorList, at::IntArrayRef, at::IntArrayRef, const Maybe&,
                               std::optional<at::ScalarType> type, at::IntArrayRef, bool) {
  return at::empty({a.size(0), b.size(1)}, a.options().dtype(type.value_or(at::kBFloat16)));
}

// Rows in groups, each times its matrix.
at::Tensor scaled_grouped_mm(const at::Tensor& a, const at::Tensor& b, const at::Tensor&, const at::Tensor&,
                             const Maybe&, const Maybe&, const Maybe&, std::optional<at::ScalarType> type, bool) {
  return at::empty({a.size(0), b.size(-1)}, a.options().dtype(type.value_or(at::kBFloat16)));
}

at::Tensor mm_dtype(const at::Tensor& a, const at::Tensor& b, at::ScalarType type) {
  return at::empty({a.size(0), b.size(1)}, a.options().dtype(type));
}

at::Tensor& addmm_dtype_out(const at::Tensor&, const at::Tensor&, const at::Tensor&, at::ScalarType, const at::Scalar&,
                            const at::Scalar&, at::Tensor& out) {
  return out;
}

// Rows [T, k] times the matrices [E, k, n] of their groups, or for each group [m, T] times [T, n].
at::Tensor grouped_mm(const at::Tensor& a, const at::Tensor& b, const std::optional<at::Tensor>& ends,
                      const std::optional<at::Tensor>&, std::optional<at::ScalarType> type) {
  TORCH_CHECK_NOT_IMPLEMENTED(a.dim() == 2 && ends, "_grouped_mm on meta tensors takes rows in groups");
  const auto options = a.options().dtype(type.value_or(a.scalar_type()));
  if (b.dim() == 3) return at::empty({a.size(0), b.size(2)}, options);
  return at::empty({ends->size(0), a.size(0), b.size(1)}, options);
}

// Statistics of each row, [..., 1] in the dtype of sums.
at::Tensor row_numbers(const at::Tensor& x, at::IntArrayRef normalized_shape) {
  auto shape = x.sizes().vec();
  for (std::size_t i = shape.size() - normalized_shape.size(); i < shape.size(); ++i) shape[i] = 1;
  return at::empty(shape, x.options().dtype(ops::sum_type(x)));
}

at::Tensor like(const std::optional<at::Tensor>& weight, bool wanted) {
  return wanted && weight && weight->defined() ? at::empty_like(*weight) : at::Tensor();
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm(const at::Tensor& x, at::IntArrayRef normalized_shape,
                                                          const std::optional<at::Tensor>&,
                                                          const std::optional<at::Tensor>&, double) {
  return {at::empty(x.sizes(), x.options()), row_numbers(x, normalized_shape), row_numbers(x, normalized_shape)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm_backward(
    const at::Tensor&, const at::Tensor& x, at::IntArrayRef, const at::Tensor&, const at::Tensor&,
    const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias, std::array<bool, 3> wanted) {
  return {wanted[0] ? at::empty(x.sizes(), x.options()) : at::Tensor(), like(weight, wanted[1]), like(bias, wanted[2])};
}

std::tuple<at::Tensor, at::Tensor> rms_norm(const at::Tensor& x, at::IntArrayRef normalized_shape,
                                            const std::optional<at::Tensor>&, std::optional<double>) {
  return {at::empty(x.sizes(), x.options()), row_numbers(x, normalized_shape)};
}

std::tuple<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor&, const at::Tensor& x, at::IntArrayRef,
                                                     const at::Tensor&, const std::optional<at::Tensor>& weight,
                                                     std::array<bool, 2> wanted) {
  return {wanted[0] ? at::empty(x.sizes(), x.options()) : at::Tensor(), like(weight, wanted[1])};
}

at::Tensor heads_like(const at::Tensor& x, std::int64_t columns) {
  return at::empty({x.size(0), x.size(2), x.size(1), columns}, x.options()).transpose(1, 2);
}

plan::AttentionShape shape_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal) {
  return {q.size(0) * q.size(1), q.size(2), k.size(2), (q.size(3) + v.size(3)) / 2, causal};
}

// The fused kernels (cuDNN's, flash attention's): they return the output, whose heads of a position are contiguous as
// in the inputs, and a number per query, which autograd keeps with the inputs.
void fused_forward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  constexpr std::size_t causal_at = 6;
  const auto inputs = torch::jit::pop(*stack, op.schema().arguments().size());
  const auto q = inputs[0].toTensor(), k = inputs[1].toTensor(), v = inputs[2].toTensor();
  WorkCounter::attend(shape_of(q, k, v, inputs[causal_at].toBool()), false);
  const auto sums = at::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(ops::sum_type(q)));
  const at::Tensor none;
  torch::jit::push(*stack, heads_like(q, v.size(3)), sums, none, none, 0, 0, none, none, none);
}

// Heads that share keys get gradients of keys or values each, which are added up afterwards.
at::Tensor for_each_query(const at::Tensor& q, const at::Tensor& k) {
  return q.size(1) != k.size(1) ? at::empty(q.sizes(), q.options()) : at::Tensor();
}

// Accumulates the gradient of the queries in float32.
void fused_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  constexpr std::size_t causal_at = 14;
  const auto inputs = torch::jit::pop(*stack, op.schema().arguments().size());
  const auto q = inputs[1].toTensor(), k = inputs[2].toTensor(), v = inputs[3].toTensor();
  WorkCounter::attend(shape_of(q, k, v, inputs[causal_at].toBool()), true);
  const auto beside = at::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(ops::sum_type(q)));
  const auto wide_queries = at::empty(q.sizes(), q.options().dtype(ops::sum_type(q)));
  const auto keys = for_each_query(q, k), values = for_each_query(q, k);
  const auto like = [](const at::Tensor& x) { return heads_like(x, x.size(3)); };
  torch::jit::push(*stack, like(q), like(k), like(v));
}

// A mask becomes numbers that are added to the scores.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Maybe& mask, double dropout,
                     bool causal, std::optional<double> scale, bool) {
  TORCH_CHECK_NOT_IMPLEMENTED(dropout == 0, "attention on meta tensors has no dropout");
  const auto added = mask ? Maybe(at::empty(mask->sizes(), q.options())) : Maybe();
  return std::get<0>(at::_scaled_dot_product_cudnn_attention(q, k, v, added, /*compute_log_sumexp=*/true, 0.0, causal,
                                                             /*return_debug_mask=*/false, scale));
}

// Flash attention of segments: [tokens, heads, width], all of them as long as the longest. `inputs` from the bounds of
// queries on: those of keys, the two lengths, dropout, whether it is causal. A tile of queries takes the keys of the
// first one's window and the tile's own.
plan::AttentionShape segments_shape(const at::Tensor& q, at::ArrayRef<c10::IValue> inputs,
                                    const std::optional<std::int64_t>& before) {
  const auto heads = (inputs[0].toTensor().size(0) - 1) * q.size(1), longest = inputs[3].toInt();
  constexpr std::int64_t tile = 128;
  const auto keys = std::min(before.value_or(longest) + tile, longest);
  return {heads, inputs[2].toInt(), keys, q.size(2), inputs[5].toBool() && keys == longest, true};
}

std::optional<std::int64_t> keys_before(const c10::FunctionSchema& schema, const torch::jit::Stack& inputs) {
  return inputs[static_cast<std::size_t>(*schema.argumentIndexWithName("window_size_left"))].toOptional<std::int64_t>();
}

void segments_forward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  constexpr std::size_t bounds_at = 3;
  const auto inputs = torch::jit::pop(*stack, op.schema().arguments().size());
  const auto q = inputs[0].toTensor();
  TORCH_CHECK_NOT_IMPLEMENTED(inputs[bounds_at].isTensor(), "flash attention on meta tensors takes segments");
  WorkCounter::attend(segments_shape(q, at::ArrayRef(inputs).slice(bounds_at), keys_before(op.schema(), inputs)),
                      false);
  const auto seed = at::empty({2}, q.options().dtype(at::kLong));
  const auto sums = at::empty({q.size(1), q.size(0)}, q.options().dtype(at::kFloat));
  torch::jit::push(*stack, at::empty(q.sizes(), q.options()), sums, seed, at::empty({0}, seed.options()),
                   at::empty({0}, q.options()));
}

void segments_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  constexpr std::size_t bounds_at = 6;
  const auto inputs = torch::jit::pop(*stack, op.schema().arguments().size());
  const auto q = inputs[1].toTensor(), k = inputs[2].toTensor(), v = inputs[3].toTensor();
  WorkCounter::attend(segments_shape(q, at::ArrayRef(inputs).slice(bounds_at), keys_before(op.schema(), inputs)), true);
  const auto wide_queries = at::empty(q.sizes(), q.options().dtype(at::kFloat));
  const auto keys = for_each_query(q, k), values = for_each_query(q, k);
  torch::jit::push(*stack, at::empty(q.sizes(), q.options()), at::empty(k.sizes(), k.options()),
                   at::empty(v.sizes(), v.options()));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("_scaled_dot_product_cudnn_attention", torch::CppFunction::makeFromBoxedFunction<&fused_forward>());
  m.impl("_scaled_dot_product_cudnn_attention_backward", torch::CppFunction::makeFromBoxedFunction<&fused_backward>());
  m.impl("_flash_attention_forward", torch::CppFunction::makeFromBoxedFunction<&segments_forward>());
  m.impl("_flash_attention_backward", torch::CppFunction::makeFromBoxedFunction<&segments_backward>());
  m.impl("index_select", &index_select);
  m.impl("embedding_dense_backward", &embedding_dense_backward);
  m.impl("repeat_interleave.Tensor", &repeat_interleave);
  m.impl("logical_not", &logical_not);
  m.impl("logical_or", &logical_or);
  m.impl("floor_divide", &floor_divide);
  m.impl("where.self", &where);
  m.impl("mm.dtype", &mm_dtype);
  m.impl("addmm.dtype_out", &addmm_dtype_out);
  m.impl("_grouped_mm", &grouped_mm);
  m.impl("_scaled_mm", &scaled_mm);
  m.impl("_scaled_mm_v2", &scaled_mm_of_blocks);
  m.impl("_scaled_grouped_mm", &scaled_grouped_mm);
  m.impl("native_layer_norm", &layer_norm);
  m.impl("native_layer_norm_backward", &layer_norm_backward);
  m.impl("_fused_rms_norm", &rms_norm);
  m.impl("_fused_rms_norm_backward", &rms_norm_backward);
}

TORCH_LIBRARY_IMPL(aten, AutogradMeta, m) { m.impl("scaled_dot_product_attention", &attention); }

}  // namespace capstan::predict
