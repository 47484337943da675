#include "ops/add_lists.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>

#include "ops/operator.h"

namespace capstan::ops {
namespace {

bool is_mixed(const at::Tensor& to, const at::Tensor& from) {
  const auto narrow = from.scalar_type() == at::kBFloat16 || from.scalar_type() == at::kHalf;
  return to.is_cuda() && to.scalar_type() == at::kFloat && narrow && to.is_contiguous() && from.is_contiguous();
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan, m) { m.def("add_lists_(Tensor(a!)[] to, Tensor[] from) -> ()"); }

void add_lists_(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from) {
  CAPSTAN_ASSERT(to.size() == from.size());
  std::vector<at::Tensor> sums, parts, other_sums, other_parts;
  for (std::size_t i = 0; i < to.size(); ++i) {
    CAPSTAN_ASSERT(to[i].numel() == from[i].numel());
    const bool mixed = is_mixed(to[i], from[i]);
    (mixed ? sums : other_sums).push_back(to[i]);
    (mixed ? parts : other_parts).push_back(from[i]);
  }
  if (!other_sums.empty()) at::_foreach_add_(other_sums, other_parts);
  if (sums.empty()) return;
  static const auto op = find_operator<void(at::TensorList, at::TensorList)>("capstan::add_lists_");
  op.call(sums, parts);
}

void Moves::run(bool write) const {
  if (!to.empty()) write ? at::_foreach_copy_(to, from) : add_lists_(to, from);
}

}  // namespace capstan::ops
