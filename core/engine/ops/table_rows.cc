#include "ops/table_rows.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <capstan/base/error.h>

#include "ops/operator.h"

namespace capstan::ops {
namespace {

// A mark on a leaf. It is in the tensor itself, so that code which has the weight need not know who asked for rows.
struct GivesRows final : public c10::BackendMeta {};

bool gives_rows(const at::Tensor& table) {
  return dynamic_cast<const GivesRows*>(table.unsafeGetTensorImpl()->get_backend_meta()) != nullptr;
}

class RowsFunction : public Function<RowsFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& table, const at::Tensor& ids,
                            const at::Tensor& of_gradient) {
    ctx->save_for_backward({of_gradient});
    ctx->saved_data["rows"] = table.size(0);
    const at::AutoDispatchBelowADInplaceOrView guard;
    return at::embedding(table, ids);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto ids = ctx->get_saved_variables().front().reshape({1, -1});
    const auto columns = gradients[0].size(-1);
    const auto values = gradients[0].reshape({-1, columns});
    return {at::_sparse_coo_tensor_unsafe(ids, values, {ctx->saved_data["rows"].toInt(), columns}), {}, {}};
  }
};

void add_rows_cpu(const at::Tensor& to, const at::Tensor& ids, const at::Tensor& rows, std::int64_t first) {
  const at::Tensor here = ids.ge(first).logical_and(ids.lt(first + to.size(0))).nonzero().squeeze(1);
  to.index_add_(0, ids.index_select(0, here) - first, rows.index_select(0, here).to(to.scalar_type()));
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan, m) {
  define(m, "add_rows_(Tensor(a!) to, Tensor ids, Tensor rows, int first) -> ()", &add_rows_cpu);
}

at::Tensor lookup(const at::Tensor& table, const at::Tensor& ids, const at::Tensor& real) {
  if (!gives_rows(table)) return at::embedding(table, ids);
  // It does not use at::where, which copies its -1 from the host: no graph could be recorded.
  return RowsFunction::apply(table, ids, real.defined() ? ids.masked_fill(real.logical_not(), -1) : ids);
}

void give_rows(const at::Tensor& table) {
  CAPSTAN_ASSERT(table.dim() == 2 && table.is_leaf());
  table.unsafeGetTensorImpl()->set_backend_meta(c10::make_intrusive<GivesRows>());
}

void add_rows_(const at::Tensor& to, const at::Tensor& ids, const at::Tensor& rows, std::int64_t first) {
  CAPSTAN_ASSERT(to.dim() == 2 && to.is_contiguous() && ids.dim() == 1 && ids.scalar_type() == at::kLong);
  CAPSTAN_ASSERT(rows.dim() == 2 && rows.size(0) == ids.size(0) && rows.size(1) == to.size(1));
  if (to.numel() == 0 || ids.numel() == 0) return;
  static const auto op = find_operator<decltype(add_rows_cpu)>("capstan::add_rows_");
  op.call(to, ids.contiguous(), rows.contiguous(), first);
}

}  // namespace capstan::ops
