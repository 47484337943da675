#include "ops/checksum.h"

#include <capstan/base/error.h>

#include <atomic>
#include <type_traits>

#include "kernels/checksum_term.h"
#include "ops/operator.h"
#include "ops/parallel.h"

namespace capstan::ops {
namespace {

template <class Word>
std::uint64_t checksum(const void* data, std::int64_t numel) {
  std::atomic<std::uint64_t> sum{0};
  const auto* const words = static_cast<const Word*>(data);
  parallel_ranges(numel, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
    std::uint64_t mine = 0;
    for (std::int64_t i = begin; i < end; ++i) mine += kernels::checksum_term(words[i], i);
    sum += mine;
  });
  return sum;
}

void checksums_cpu(const at::Tensor& out, at::TensorList xs) {
  auto* const to = out.data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const auto* const data = xs[i].const_data_ptr();
    const auto numel = xs[i].numel();
    const auto width = xs[i].element_size();
    const auto sum = width == 8   ? checksum<std::uint64_t>(data, numel)
                     : width == 4 ? checksum<std::uint32_t>(data, numel)
                                  : checksum<std::uint16_t>(data, numel);
    to[i] = static_cast<std::int64_t>(sum);
  }
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan, m) { define(m, "checksums(Tensor(a!) out, Tensor[] xs) -> ()", &checksums_cpu); }

void checksums(const at::Tensor& out, const std::vector<at::Tensor>& xs) {
  CAPSTAN_ASSERT(out.scalar_type() == at::kLong && out.is_contiguous());
  CAPSTAN_ASSERT(out.numel() == static_cast<std::int64_t>(xs.size()));
  for (const auto& x : xs) CAPSTAN_ASSERT(x.is_non_overlapping_and_dense() && x.device() == out.device());
  if (xs.empty()) return;
  static const auto op = find_operator<decltype(checksums_cpu)>("capstan::checksums");
  op.call(out, xs);
}

}  // namespace capstan::ops
