#pragma once
// What an operator's files share. Operator X has all that it is in X.cc (schema, CPU code, shapes on the meta device,
// gradient), X_cuda.cc (tensors in, launches out) and kernels/X.cu; each file registers what it has.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <optional>

namespace capstan::ops {

using Maybe = std::optional<at::Tensor>;  // a schema's "Tensor?"

inline Maybe maybe(const at::Tensor& x) { return x.defined() ? Maybe(x) : std::nullopt; }

/// A handle for calls, whose Signature is that of the operator's CPU code. Looked up by name: callers keep it.
template <class Signature>
c10::TypedOperatorHandle<Signature> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

/// The dtype of products and sums.
inline at::ScalarType sum_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

/// A new tensor of x's shape and dtype, contiguous.
inline at::Tensor room_for(const at::Tensor& x) { return at::empty(x.sizes(), x.options()); }

}  // namespace capstan::ops
