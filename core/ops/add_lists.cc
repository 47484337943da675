#include "ops/add_lists.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <torch/library.h>

#include "ops/trial.h"

namespace capstan::ops {
namespace {

bool is_mixed(const at::Tensor& to, const at::Tensor& from) {
  const auto narrow = from.scalar_type() == at::kBFloat16 || from.scalar_type() == at::kHalf;
  return to.is_cuda() && to.numel() == from.numel() && to.scalar_type() == at::kFloat && narrow && to.is_contiguous() &&
         from.is_contiguous();
}

/// Tensors that go in few launches, and the others.
struct Lists {
  std::vector<at::Tensor> to, from, other_to, other_from;
  Lists(const std::vector<at::Tensor>& all_to, const std::vector<at::Tensor>& all_from) {
    CAPSTAN_ASSERT(all_to.size() == all_from.size());
    for (std::size_t i = 0; i < all_to.size(); ++i) {
      const bool mixed = is_mixed(all_to[i], all_from[i]);
      (mixed ? to : other_to).push_back(all_to[i]);
      (mixed ? from : other_from).push_back(all_from[i]);
    }
  }
  void move(bool write) const {
    if (to.empty()) return;
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("capstan::move_lists_", "")
                               .typed<void(at::TensorList, at::TensorList, bool)>();
    op.call(to, from, write);
  }
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan, m) { m.def("move_lists_(Tensor(a!)[] to, Tensor[] from, bool write) -> ()"); }

void add_lists_(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from) {
  const Lists lists(to, from);
  if (!lists.other_to.empty()) at::_foreach_add_(lists.other_to, lists.other_from);
  lists.move(/*write=*/false);
}

void copy_lists_(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from) {
  if (!on_trial("lists")) return at::_foreach_copy_(to, from);
  const Lists lists(to, from);
  if (!lists.other_to.empty()) at::_foreach_copy_(lists.other_to, lists.other_from);
  lists.move(/*write=*/true);
}

}  // namespace capstan::ops
