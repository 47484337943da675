#include "ops/table_rows.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <torch/library.h>

namespace capstan::ops {
namespace {

// A mark on a leaf. It is in the tensor itself, so that whoever has the weight need not know who asked for rows.
struct GivesRows final : public c10::BackendMeta {};

bool gives_rows(const at::Tensor& table) {
  return dynamic_cast<const GivesRows*>(table.unsafeGetTensorImpl()->get_backend_meta()) != nullptr;
}

void add_rows_cpu(const at::Tensor& to, const at::Tensor& ids, const at::Tensor& rows, std::int64_t first) {
  const at::Tensor here = ids.ge(first).logical_and(ids.lt(first + to.size(0))).nonzero().squeeze(1);
  to.index_add_(0, ids.index_select(0, here) - first, rows.index_select(0, here).to(to.scalar_type()));
}

void add_rows_meta(const at::Tensor&, const at::Tensor&, const at::Tensor&, std::int64_t) {}

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan, m) { m.def("add_rows_(Tensor(a!) to, Tensor ids, Tensor rows, int first) -> ()"); }
TORCH_LIBRARY_IMPL(capstan, CPU, m) { m.impl("add_rows_", &add_rows_cpu); }
TORCH_LIBRARY_IMPL(capstan, Meta, m) { m.impl("add_rows_", &add_rows_meta); }

at::Tensor lookup(const at::Tensor& table, const at::Tensor& ids) {
  return at::embedding(table, ids, /*padding_idx=*/-1, /*scale_grad_by_freq=*/false, /*sparse=*/gives_rows(table));
}

void give_rows(const at::Tensor& table) {
  CAPSTAN_ASSERT(table.dim() == 2 && table.is_leaf());
  table.unsafeGetTensorImpl()->set_backend_meta(c10::make_intrusive<GivesRows>());
}

void add_rows_(const at::Tensor& to, const at::Tensor& ids, const at::Tensor& rows, std::int64_t first) {
  CAPSTAN_ASSERT(to.dim() == 2 && to.is_contiguous() && ids.dim() == 1 && ids.scalar_type() == at::kLong);
  CAPSTAN_ASSERT(rows.dim() == 2 && rows.size(0) == ids.size(0) && rows.size(1) == to.size(1));
  if (to.numel() == 0 || ids.numel() == 0) return;
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("capstan::add_rows_", "")
                             .typed<void(const at::Tensor&, const at::Tensor&, const at::Tensor&, std::int64_t)>();
  op.call(to, ids.contiguous(), rows.contiguous(), first);
}

}  // namespace capstan::ops
