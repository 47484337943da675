#include "lists.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <dlfcn.h>
#include <torch/library.h>

#include <filesystem>

namespace capstan::adamw {
namespace {

bool has_16_bits(const at::Tensor& x) { return x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf; }

/// What may go with float32 masters: a gradient, and a copy to write, if any.
bool go_together(const at::Tensor& gradient, const at::Tensor& copy) {
  if (gradient.scalar_type() != at::kFloat && !has_16_bits(gradient)) return false;
  if (!copy.defined()) return true;
  const bool matches = gradient.scalar_type() == at::kFloat || gradient.scalar_type() == copy.scalar_type();
  return has_16_bits(copy) && copy.is_contiguous() && matches;
}

using Operator = void(at::TensorList, at::TensorList, at::TensorList, at::TensorList, at::ArrayRef<double>,
                      at::TensorList);

// The kernels are in a file of their own next to this library's, since only ranks that use GPUs have what it needs.
c10::TypedOperatorHandle<Operator> open_operator() {
  Dl_info here{};
  dladdr(reinterpret_cast<const void*>(&open_operator), &here);
  const auto file = std::filesystem::canonical(here.dli_fname).parent_path() / "libcapstan_adamw_cuda.so";
  if (dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {  // NOLINT(concurrency-mt-unsafe)
    throw Error(cat("AdamW's kernels cannot be loaded: ", dlerror()),
                "install Capstan again, from a build with CAPSTAN_CUDA=ON");
  }
  return c10::Dispatcher::singleton().findSchemaOrThrow("capstan::adamw_lists_", "").typed<Operator>();
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan, m) {
  m.def(
      "adamw_lists_(Tensor(a!)[] masters, Tensor(b!)[] states, Tensor[] gradients, Tensor(c!)[] copies, "
      "float[] step, Tensor[] numbers) -> ()");
}

bool takes(const at::Tensor& master, const at::Tensor& gradient, const at::Tensor& copy) {
  if (!master.is_cuda() || !master.is_contiguous() || !gradient.is_contiguous()) return false;
  if (master.scalar_type() == at::kFloat) return go_together(gradient, copy);
  return has_16_bits(master) && gradient.scalar_type() == master.scalar_type() && !copy.defined();
}

void update_lists(const Lists& lists, const Step& step, const OnDevice& numbers) {
  const auto count = lists.masters.size();
  CAPSTAN_ASSERT(lists.averages.size() == count && lists.squares.size() == count && lists.gradients.size() == count);
  CAPSTAN_ASSERT(lists.copies.empty() || lists.copies.size() == count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto copy = lists.copies.empty() ? at::Tensor() : lists.copies[i];
    CAPSTAN_ASSERT(takes(lists.masters[i], lists.gradients[i], copy));
    CAPSTAN_ASSERT(lists.gradients[i].scalar_type() == lists.gradients.front().scalar_type());
  }
  for (const auto* number : {&numbers.count, &numbers.grad_scale, &numbers.skip})
    CAPSTAN_ASSERT(number->scalar_type() == at::kFloat && number->numel() == 1);
  if (count == 0) return;
  static const auto op = open_operator();
  std::vector<at::Tensor> states = lists.averages;
  states.insert(states.end(), lists.squares.begin(), lists.squares.end());
  const std::vector<at::Tensor> on_device{numbers.count, numbers.grad_scale, numbers.skip};
  op.call(lists.masters, states, lists.gradients, lists.copies, {step.lr, step.beta1, step.beta2, step.decay, step.eps},
          on_device);
}

}  // namespace capstan::adamw
