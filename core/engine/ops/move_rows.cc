#include "ops/move_rows.h"
#include <capstan/base/error.h>

#include "ops/operator.h"

namespace capstan::ops {
namespace {

at::Tensor moved(const at::Tensor& x, const at::Tensor& from, const at::Tensor& to, std::int64_t rows) {
  auto shape = x.sizes().vec();
  shape.front() = rows;
  return at::zeros(shape, x.options()).index_copy_(0, to, x.index_select(0, from));
}

class MoveRows : public Function<MoveRows> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& from, const at::Tensor& to,
                            std::int64_t rows) {
    ctx->save_for_backward({from, to});
    ctx->saved_data["rows"] = x.size(0);
    return moved(x, from, to, rows);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    return {moved(gradients[0], saved[1], saved[0], ctx->saved_data["rows"].toInt()), {}, {}, {}};
  }
};

class PickRows : public Function<PickRows> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& rows) {
    ctx->save_for_backward({rows});
    ctx->saved_data["shape"] = x.sizes();
    return x.index_select(0, rows);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto shape = ctx->saved_data["shape"].toIntVector();
    return {at::zeros(shape, gradients[0].options()).index_copy_(0, ctx->get_saved_variables()[0], gradients[0]), {}};
  }
};

}  // namespace

at::Tensor move_rows(const at::Tensor& x, const at::Tensor& from, const at::Tensor& to, std::int64_t rows) {
  CAPSTAN_ASSERT(x.dim() >= 1 && from.dim() == 1 && from.sizes() == to.sizes());
  return MoveRows::apply(x, from, to, rows);
}

at::Tensor pick_rows(const at::Tensor& x, const at::Tensor& rows) {
  CAPSTAN_ASSERT(x.dim() >= 1 && rows.dim() == 1);
  return PickRows::apply(x, rows);
}

}  // namespace capstan::ops
