#pragma once
// What hands slices over to the CPU's code or to the kernel.
#include <ATen/core/Tensor.h>

#include <vector>

#include "arithmetic.h"

namespace adam8bit {

/// Slices of one device. Each has four states, in the order of Rule::states(). All masters have one dtype, and so have
/// all gradients and all copies.
struct Slices {
  std::vector<at::Tensor> masters, gradients, states;
  std::vector<at::Tensor> copies;  ///< for each master, or none at all
  std::vector<double> lr, weight_decay;
};

/// optimizer::Update's tensors.
struct Progress {
  at::Tensor count, grad_scale, skip;
};

/// Updates all of them, on a GPU by a launch for every 40. A GPU's gradients have the masters' dtype or, for float32
/// masters, 16 bits, and its copies have 16 bits, the gradients' if these have as many (takes()).
void update(const Slices& slices, const Settings& by, const Progress& progress);

/// Can a GPU's slices with such tensors be updated so? The copy may be undefined.
bool takes(const at::Tensor& master, const at::Tensor& gradient, const at::Tensor& copy);

}  // namespace adam8bit
