#include "comm/ordered_sum.h"

#include <capstan/base/error.h>

namespace capstan::comm {
namespace {

void accumulate(at::Tensor& total, const at::Tensor& part, ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      total.add_(part);
      return;
    case ReduceOp::max:
      at::maximum_out(total, total, part);
      return;
    case ReduceOp::min:
      at::minimum_out(total, total, part);
      return;
  }
}

bool summed_in_float(const at::Tensor& tensor, ReduceOp op) {
  return op == ReduceOp::sum && (tensor.scalar_type() == at::kBFloat16 || tensor.scalar_type() == at::kHalf);
}

}  // namespace

void reduce_in_rank_order(const at::Tensor& out, const std::vector<at::Tensor>& parts, ReduceOp op) {
  CAPSTAN_ASSERT(!parts.empty());
  const at::NoGradGuard no_grad;
  if (summed_in_float(out, op)) {
    at::Tensor total = parts[0].to(at::kFloat);
    for (std::size_t i = 1; i < parts.size(); ++i) total.add_(parts[i].to(at::kFloat));
    out.copy_(total);
    return;
  }
  at::Tensor total = out;
  if (out.data_ptr() != parts[0].data_ptr()) total.copy_(parts[0]);
  for (std::size_t i = 1; i < parts.size(); ++i) accumulate(total, parts[i], op);
}

at::Tensor flat_memory(const at::Tensor& tensor, at::ScalarType dtype) {
  CAPSTAN_ASSERT(tensor.is_contiguous());
  const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
  const auto size = static_cast<std::int64_t>(c10::elementSize(dtype));
  CAPSTAN_ASSERT(bytes % size == 0);
  return at::from_blob(
      tensor.data_ptr(), {bytes / size}, [tensor](void*) {}, at::TensorOptions().dtype(dtype).device(tensor.device()),
      tensor.device());
}

}  // namespace capstan::comm
