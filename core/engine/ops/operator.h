#pragma once
// What an operator's files share. Operator X has all that it is in X.cc (schema, CPU code, shapes on the meta device,
// gradient), X_cuda.cc (tensors in, launches out) and kernels/X.cu; each file registers what it has.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <optional>
#include <string>

namespace capstan::ops {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;
using Maybe = std::optional<at::Tensor>;  // a schema's "Tensor?"

inline Maybe maybe(const at::Tensor& x) { return x.defined() ? Maybe(x) : std::nullopt; }

/// Declares an operator by its schema, with its CPU code and what makes its results on the meta device.
template <class Cpu, class Meta>
void define(torch::Library& library, const std::string& schema, Cpu cpu, Meta meta) {
  const auto name = schema.substr(0, schema.find('('));
  library.def(schema.c_str());
  library.impl(name.c_str(), torch::dispatch(c10::DispatchKey::CPU, cpu));
  library.impl(name.c_str(), torch::dispatch(c10::DispatchKey::Meta, meta));
}

/// The same of one that returns nothing.
template <class... Arguments>
void define(torch::Library& library, const std::string& schema, void (*cpu)(Arguments...)) {
  define(library, schema, cpu, [](Arguments...) {});
}

/// A handle for calls, whose Signature is that of the operator's CPU code. Looked up by name: callers keep it.
template <class Signature>
c10::TypedOperatorHandle<Signature> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

/// The dtype of products and sums.
inline at::ScalarType sum_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

/// Room for a statistic of each row: [..., 1] in the dtype of sums.
inline at::Tensor row_numbers(const at::Tensor& x) {
  auto shape = x.sizes().vec();
  shape.back() = 1;
  return at::empty(shape, x.options().dtype(sum_type(x)));
}

/// A new tensor of x's shape and dtype, contiguous.
inline at::Tensor room_for(const at::Tensor& x) { return at::empty(x.sizes(), x.options()); }

}  // namespace capstan::ops
