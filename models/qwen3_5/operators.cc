#include "operators.h"

#include <torch/library.h>

namespace qwen3_5 {

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

}  // namespace qwen3_5
