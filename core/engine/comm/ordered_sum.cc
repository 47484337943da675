#include "comm/ordered_sum.h"

#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>

namespace capstan::comm {

void reduce_in_rank_order(const at::Tensor& out, const std::vector<at::Tensor>& parts, ReduceOp op) {
  CAPSTAN_ASSERT(!parts.empty());
  const at::NoGradGuard no_grad;
  const bool is_short = out.scalar_type() == at::kBFloat16 || out.scalar_type() == at::kHalf;
  const bool in_float = op == ReduceOp::sum && is_short;
  at::Tensor total = in_float ? parts[0].to(at::kFloat) : out;
  if (!in_float && out.data_ptr() != parts[0].data_ptr()) total.copy_(parts[0]);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (op == ReduceOp::sum) {
      total.add_(in_float ? parts[i].to(at::kFloat) : parts[i]);
    } else if (op == ReduceOp::max) {
      at::maximum_out(total, total, parts[i]);
    } else {
      at::minimum_out(total, total, parts[i]);
    }
  }
  if (in_float) out.copy_(total);
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
