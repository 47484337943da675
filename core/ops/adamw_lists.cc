#include "ops/adamw_lists.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <torch/library.h>

namespace capstan::ops {
namespace {

bool has_16_bits(const at::Tensor& x) { return x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf; }

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan, m) {
  m.def(
      "adamw_lists_(Tensor(a!)[] masters, Tensor(b!)[] states, Tensor[] gradients, Tensor(c!)[] copies, "
      "float[] step, Tensor[] numbers) -> ()");
}

bool takes_adamw_lists(const at::Tensor& master, const at::Tensor& gradient, const at::Tensor& copy) {
  const bool known = master.scalar_type() == at::kFloat || has_16_bits(master);
  const bool one_dtype = gradient.scalar_type() == master.scalar_type();
  const bool narrow = master.scalar_type() == at::kFloat && has_16_bits(gradient) &&
                      (!copy.defined() || copy.scalar_type() == gradient.scalar_type());
  const bool dense = master.is_contiguous() && gradient.is_contiguous();
  const bool narrow_copy = copy.defined() && master.scalar_type() == at::kFloat && has_16_bits(copy);
  return master.is_cuda() && known && (one_dtype || narrow) && dense &&
         (!copy.defined() || (narrow_copy && copy.is_contiguous()));
}

void adamw_lists_(const AdamwLists& lists, const AdamwStep& step, const AdamwOnDevice& numbers) {
  const auto count = lists.masters.size();
  CAPSTAN_ASSERT(lists.averages.size() == count && lists.squares.size() == count && lists.gradients.size() == count);
  CAPSTAN_ASSERT(lists.copies.empty() || lists.copies.size() == count);
  for (std::size_t i = 0; i < count; ++i)
    CAPSTAN_ASSERT(takes_adamw_lists(lists.masters[i], lists.gradients[i],
                                     lists.copies.empty() ? at::Tensor() : lists.copies[i]) &&
                   lists.gradients[i].scalar_type() == lists.gradients.front().scalar_type());
  for (const auto* number : {&numbers.count, &numbers.grad_scale, &numbers.skip})
    CAPSTAN_ASSERT(number->scalar_type() == at::kFloat && number->numel() == 1);
  if (count == 0) return;
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("capstan::adamw_lists_", "")
                             .typed<void(at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                                         at::ArrayRef<double>, at::TensorList)>();
  std::vector<at::Tensor> states = lists.averages;
  states.insert(states.end(), lists.squares.begin(), lists.squares.end());
  const std::vector<at::Tensor> on_device{numbers.count, numbers.grad_scale, numbers.skip};
  op.call(lists.masters, states, lists.gradients, lists.copies, {step.lr, step.beta1, step.beta2, step.decay, step.eps},
          on_device);
}

}  // namespace capstan::ops
