#include "ops/norm.h"
#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>

#include "kernels/block_sum.h"
#include "ops/operator.h"
#include "ops/parallel.h"

namespace capstan::ops {
namespace {

/// Sum of value(0) ... value(count - 1): lanes, then the tree.
template <class Value>
double lane_sum(std::int64_t count, const Value& value) {
  double lanes[kernels::sum_lanes] = {};
  std::int64_t i = 0;
  for (; i + kernels::sum_lanes <= count; i += kernels::sum_lanes) {
    for (int lane = 0; lane < kernels::sum_lanes; ++lane) {
      lanes[lane] += value(i + lane);
    }
  }
  for (int lane = 0; i + lane < count; ++lane) {
    lanes[lane] += value(i + lane);
  }
  for (int distance = kernels::sum_lanes / 2; distance > 0; distance /= 2) {
    for (int lane = 0; lane < distance; ++lane) {
      lanes[lane] += lanes[lane + distance];
    }
  }
  return lanes[0];
}

template <class T>
double squared_norm(const T* data, std::int64_t numel) {
  std::vector<double> sums(static_cast<std::size_t>(kernels::sum_blocks(numel)));
  parallel_ranges(kernels::sum_blocks(numel), 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      const T* const x = data + block * kernels::sum_block;
      sums[static_cast<std::size_t>(block)] =
          lane_sum(std::min(kernels::sum_block, numel - block * kernels::sum_block), [x](std::int64_t i) {
            const auto element = static_cast<double>(x[i]);
            return element * element;
          });
    }
  });
  return lane_sum(kernels::sum_blocks(numel), [&](std::int64_t i) { return sums[static_cast<std::size_t>(i)]; });
}

void squared_norms_cpu(const at::Tensor& out, at::TensorList xs) {
  auto* const to = out.data_ptr<double>();
  for (std::size_t i = 0; i < xs.size(); ++i) {
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, xs[i].scalar_type(), "squared_norms",
                                    [&] { to[i] = squared_norm(xs[i].const_data_ptr<scalar_t>(), xs[i].numel()); });
  }
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan, m) {
  define(m, "squared_norms(Tensor(a!) out, Tensor[] xs) -> ()", &squared_norms_cpu);
}

void squared_norms(const at::Tensor& out, const std::vector<at::Tensor>& xs) {
  CAPSTAN_ASSERT(out.scalar_type() == at::kDouble && out.is_contiguous());
  CAPSTAN_ASSERT(out.numel() == static_cast<std::int64_t>(xs.size()));
  for (const at::Tensor& x : xs) CAPSTAN_ASSERT(x.is_non_overlapping_and_dense() && x.device() == out.device());
  if (xs.empty()) return;
  static const auto op = find_operator<decltype(squared_norms_cpu)>("capstan::squared_norms");
  const at::NoGradGuard no_grad;
  op.call(out, xs);
}

}  // namespace capstan::ops
