// The operator, and its CPU side.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "blocks.h"

namespace adam8bit {
namespace {

void update_cpu(at::TensorList masters, at::TensorList states, at::TensorList gradients, at::TensorList copies,
                at::ArrayRef<double> options, at::TensorList progress) {
  const auto settings = options.slice(2 * masters.size());
  const Settings by{static_cast<float>(settings[0]), static_cast<float>(settings[1]), settings[2]};
  if (progress[2].item<float>() == 1) return;
  const auto count = progress[0].item<double>();
  const auto grad_scale = progress[1].item<float>();
  for (std::size_t i = 0; i < masters.size(); ++i) {
    const auto* state = &states[i * states_each];
    const Part part{masters[i], gradients[i], moments_of(state[0], state[1], state[2], state[3]),
                    copies.empty() ? at::Tensor() : copies[i]};
    update(part, numbers(by, options[i], options[masters.size() + i], count, grad_scale));
  }
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan, m) {
  m.def(
      "adam8bit_(Tensor(a!)[] masters, Tensor(b!)[] states, Tensor[] gradients, Tensor(c!)[] copies, float[] options, "
      "Tensor[] progress) -> ()");
}

TORCH_LIBRARY_IMPL(capstan, CPU, m) { m.impl("adam8bit_", &update_cpu); }

}  // namespace adam8bit
