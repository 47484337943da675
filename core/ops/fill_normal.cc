#include <capstan/base/error.h>
#include <capstan/base/philox.h>
#include <capstan/ops/random.h>

#include "ops/make_box.h"
#include "ops/operator.h"
#include "ops/parallel.h"
#include "ops/philox_bits.h"
#include "ops/rounded.h"

namespace capstan::ops {
namespace {

template <class T>
void fill_run(T* out, std::int64_t index, std::int64_t length, double mean, double std, PhiloxKey key) {
  kernels::NormalPair pair{};
  for (std::int64_t i = 0; i < length; ++i, ++index) {
    const auto lane = index % 2;
    if (i == 0 || lane == 0) {
      pair = kernels::normal_pair(key, static_cast<std::uint64_t>(index / 2));
    }
    out[i] = rounded<T>(mean + std * pair.value[lane]);
  }
}

void fill_normal_cpu(const at::Tensor& out, double mean, double std, std::int64_t key, at::IntArrayRef logical_shape,
                     at::IntArrayRef offsets) {
  const kernels::BoxIndex box = make_box(out.sizes(), logical_shape, offsets);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, out.scalar_type(), "fill_normal", [&] {
    auto* data = out.data_ptr<scalar_t>();
    parallel_ranges(out.numel(), 4096, [&](std::int64_t begin, std::int64_t end) {
      box.for_each_run(begin, end, [&](std::int64_t local, std::int64_t logical, std::int64_t length) {
        fill_run(data + local, logical, length, mean, std, key_from_bits(key));
      });
    });
  });
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan, m) {
  m.def("fill_normal(Tensor(a!) out, float mean, float std, int key, int[] logical_shape, int[] offsets) -> ()");
}
TORCH_LIBRARY_IMPL(capstan, CPU, m) { m.impl("fill_normal", &fill_normal_cpu); }
TORCH_LIBRARY_IMPL(capstan, Meta, m) {
  m.impl("fill_normal", [](const at::Tensor&, double, double, std::int64_t, at::IntArrayRef, at::IntArrayRef) {});
}

void fill_normal(const at::Tensor& out, double mean, double std, std::uint64_t seed, std::string_view name,
                 const std::vector<std::int64_t>& logical_shape, const std::vector<std::int64_t>& offsets) {
  CAPSTAN_ASSERT(out.is_contiguous());
  if (out.numel() == 0) return;
  static const auto op = find_operator<decltype(fill_normal_cpu)>("capstan::fill_normal");
  const at::NoGradGuard no_grad;
  op.call(out, mean, std, key_bits(make_key(seed, RandomPurpose::initialisation, name)), logical_shape, offsets);
}

}  // namespace capstan::ops
