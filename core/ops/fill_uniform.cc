#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <capstan/base/error.h>
#include <capstan/base/philox.h>
#include <capstan/ops/random.h>

#include "ops/make_box.h"
#include "ops/rounded.h"

namespace capstan::ops {
namespace {

double unit_number(PhiloxKey key, std::int64_t index) {
  constexpr double unit = 1.0 / 9007199254740992.0;  // 2^-53
  const auto block = static_cast<std::uint64_t>(index / 2);
  const auto bits = philox({{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0u, 0u}}, key);
  const auto lane = static_cast<std::size_t>(index % 2) * 2;
  return static_cast<double>((std::uint64_t{bits.word[lane]} << 32 | bits.word[lane + 1]) >> 11) * unit;
}

}  // namespace

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
