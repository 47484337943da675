#include "operator.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <capstan/base/error.h>

#include "blocks.h"

namespace adam8bit {
namespace {

bool has_16_bits(const at::Tensor& x) { return x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf; }

void check(const at::Tensor& tensor, std::int64_t n) { CAPSTAN_ASSERT(tensor.is_contiguous() && tensor.numel() == n); }

void check(const Slices& slices, std::size_t i) {
  const auto n = slices.masters[i].numel(), scales = blocks_of(n);
  check(slices.masters[i], n);
  check(slices.gradients[i], n);
  if (!slices.copies.empty()) check(slices.copies[i], n);
  const auto* state = &slices.states[i * states_each];
  check(state[0], n);
  check(state[1], scales);
  check(state[2], n);
  check(state[3], scales);
}

}  // namespace

bool takes(const at::Tensor& master, const at::Tensor& gradient, const at::Tensor& copy) {
  const bool alike = gradient.scalar_type() == master.scalar_type();
  if (master.scalar_type() != at::kFloat) return alike && !copy.defined();
  if (!alike && !has_16_bits(gradient)) return false;
  return !copy.defined() || (has_16_bits(copy) && (alike || copy.scalar_type() == gradient.scalar_type()));
}

void update(const Slices& slices, const Settings& by, const Progress& progress) {
  const auto count = slices.masters.size();
  CAPSTAN_ASSERT(slices.gradients.size() == count && slices.states.size() == count * states_each);
  CAPSTAN_ASSERT(slices.copies.empty() || slices.copies.size() == count);
  for (std::size_t i = 0; i < count; ++i) check(slices, i);
  if (count == 0) return;
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("capstan::adam8bit_", "")
                             .typed<void(at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                                         at::ArrayRef<double>, at::TensorList)>();
  auto options = slices.lr;
  options.insert(options.end(), slices.weight_decay.begin(), slices.weight_decay.end());
  options.insert(options.end(), {by.beta1, by.beta2, by.eps});
  const std::vector<at::Tensor> numbers{progress.count, progress.grad_scale, progress.skip};
  op.call(slices.masters, slices.states, slices.gradients, slices.copies, options, numbers);
}

}  // namespace adam8bit
