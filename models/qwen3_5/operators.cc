#include "operators.h"

#include <ATen/ATen.h>
#include <torch/library.h>

namespace qwen3_5 {
namespace {

/// What the kernels make and multiply, on the meta device: predictions of memory and time count it.
struct MetaRule {
  static constexpr std::int64_t chunk = 64;
  std::int64_t chunks, dim;
  at::Tensor pairs, u, w, states, last;

  explicit MetaRule(const at::Tensor& v)
      : chunks(v.size(0) * v.size(2) * ((v.size(1) + chunk - 1) / chunk)), dim(v.size(3)) {
    const auto tokens = at::empty({chunks, chunk, dim}, v.options());
    pairs = at::bmm(tokens, tokens.mT());
    u = at::bmm(pairs, tokens);
    w = at::bmm(pairs, tokens);
    states = at::bmm(u.mT(), w);
    at::bmm(w, states);
    last = at::empty({v.size(0), v.size(2), dim, dim}, v.options().dtype(at::kFloat));
  }
};

std::tuple<at::Tensor, at::Tensor> rule_meta(at::TensorList inputs, const Maybe&, const Maybe&) {
  const MetaRule made(inputs[2]);
  at::bmm(made.w, made.w.mT());
  at::bmm(made.w, made.states);
  at::bmm(made.pairs, made.u);
  return {at::empty(inputs[2].sizes(), inputs[2].options()), made.last};
}

std::vector<at::Tensor> rule_back_meta(const at::Tensor&, at::TensorList inputs, const Maybe&, const Maybe&,
                                       const Maybe&) {
  const MetaRule made(inputs[2]);
  const auto of_written = at::bmm(made.pairs, made.u);
  const auto after = at::bmm(of_written.mT(), made.w);
  const auto of_units = at::empty({2, made.chunks, MetaRule::chunk, made.dim}, made.last.options());
  // Those with a state: three with what leaves the chunk, two more on the way back to its first state.
  for (int product = 0; product < 5; ++product) at::bmm(made.w, after);
  // Those of pairs, and with pairs: prepare has one and one of these, gradients four and five.
  for (int product = 0; product < 5; ++product) {
    at::bmm(made.w, made.w.mT());
    at::bmm(made.pairs, of_written);
  }
  std::vector<at::Tensor> out;
  for (const auto& x : inputs) out.push_back(at::empty(x.sizes(), x.options()));
  out.push_back(at::empty_like(made.last));
  return out;
}

at::Tensor like(const at::Tensor& x) { return at::empty(x.sizes(), x.options()); }

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan, m) {
  m.def("has_delta_rule(Tensor v) -> bool");
  m.def("delta_rule(Tensor[] inputs, Tensor? begins, Tensor? first) -> (Tensor, Tensor)");
  m.def(
      "delta_rule_back(Tensor gradient, Tensor[] inputs, Tensor? begins, Tensor? first, Tensor? of_last) -> Tensor[]");
  m.def("silu_convolution(Tensor x, Tensor w, Tensor? positions) -> Tensor");
  m.def("silu_convolution_back(Tensor gradient, Tensor x, Tensor w, Tensor? positions, bool of_w) -> (Tensor, Tensor)");
  m.def("silu_gate(Tensor x, Tensor z) -> Tensor");
  m.def("silu_gate_back(Tensor gradient, Tensor x, Tensor z) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(capstan, Meta, m) {
  m.impl("has_delta_rule", [](const at::Tensor&) { return true; });
  m.impl("delta_rule", &rule_meta);
  m.impl("delta_rule_back", &rule_back_meta);
  m.impl("silu_convolution", [](const at::Tensor& x, const at::Tensor&, const Maybe&) { return like(x); });
  m.impl("silu_convolution_back",
         [](const at::Tensor&, const at::Tensor& x, const at::Tensor& w, const Maybe&, bool of_w) {
           return std::tuple(like(x), of_w ? like(w) : at::empty({0}, w.options()));
         });
  m.impl("silu_gate", [](const at::Tensor& x, const at::Tensor&) { return like(x); });
  m.impl("silu_gate_back",
         [](const at::Tensor&, const at::Tensor& x, const at::Tensor& z) { return std::tuple(like(x), like(z)); });
}

}  // namespace qwen3_5
