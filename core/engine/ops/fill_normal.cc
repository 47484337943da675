#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>
#include <capstan/base/philox.h>
#include <capstan/ops/random.h>

#include <type_traits>

#include "ops/make_box.h"
#include "ops/operator.h"
#include "ops/parallel.h"
#include "ops/philox_bits.h"

namespace capstan::ops {
namespace {

/// A drawn number in the tensor's dtype. It is rounded to float32 first, so that every narrower dtype holds the
/// rounding of the same number.
template <class T>
T rounded(double value) {
  if constexpr (std::is_same_v<T, double>) return value;
  return static_cast<T>(static_cast<float>(value));
}

template <class T>
void fill_run(T* out, std::int64_t index, std::int64_t length, double mean, double std, PhiloxKey key) {
  kernels::NormalPair pair{};
  for (std::int64_t i = 0; i < length; ++i, ++index) {
    const auto lane = index % 2;
    if (i == 0 || lane == 0) pair = kernels::normal_pair(key, static_cast<std::uint64_t>(index / 2));
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

double unit_number(PhiloxKey key, std::int64_t index) {
  constexpr double unit = 1.0 / 9007199254740992.0;  // 2^-53
  const auto block = static_cast<std::uint64_t>(index / 2);
  const auto bits = philox({{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0u, 0u}}, key);
  const auto lane = static_cast<std::size_t>(index % 2) * 2;
  return static_cast<double>((std::uint64_t{bits.word[lane]} << 32 | bits.word[lane + 1]) >> 11) * unit;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan, m) {
  define(m, "fill_normal(Tensor(a!) out, float mean, float std, int key, int[] logical_shape, int[] offsets) -> ()",
         &fill_normal_cpu);
}

void fill_normal(const at::Tensor& out, double mean, double std, std::uint64_t seed, std::string_view name,
                 const std::vector<std::int64_t>& logical_shape, const std::vector<std::int64_t>& offsets) {
  CAPSTAN_ASSERT(out.is_contiguous());
  if (out.numel() == 0) return;
  static const auto op = find_operator<decltype(fill_normal_cpu)>("capstan::fill_normal");
  const at::NoGradGuard no_grad;
  op.call(out, mean, std, key_bits(make_key(seed, RandomPurpose::initialisation, name)), logical_shape, offsets);
}

void fill_uniform(const at::Tensor& out, double low, double high, std::uint64_t seed, std::string_view name,
                  const std::vector<std::int64_t>& logical_shape, const std::vector<std::int64_t>& offsets) {
  CAPSTAN_ASSERT(out.is_contiguous());
  if (out.numel() == 0) return;
  const at::NoGradGuard no_grad;
  const auto box = make_box(out.sizes(), logical_shape, offsets);
  const auto key = make_key(seed, RandomPurpose::initialisation, name);
  const auto host = out.is_cpu() ? out : at::empty(out.sizes(), out.options().device(at::kCPU));
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, out.scalar_type(), "fill_uniform", [&] {
    auto* data = host.data_ptr<scalar_t>();
    box.for_each_run(0, host.numel(), [&](std::int64_t local, std::int64_t logical, std::int64_t length) {
      for (std::int64_t i = 0; i < length; ++i)
        data[local + i] = rounded<scalar_t>(low + (high - low) * unit_number(key, logical + i));
    });
  });
  if (!out.is_cpu()) out.copy_(host);
}

}  // namespace capstan::ops
