// The 4-bit format on a GPU against CPU's, to the bit.
#include "plugins/strategies/nf4/codec.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>

#include <chrono>
#include <cstdio>

#include "nn/weights.h"

using capstan::testing::numbers;
using nf4::Codec;

namespace {

at::Tensor encoded(const Codec::Extent& extent, const at::Tensor& values) {
  const Codec codec(0);
  auto bytes = at::empty({codec.bytes(extent)}, values.options().dtype(at::kByte));
  // As if other ranks' columns had the same magnitudes.
  const auto columns = [](const at::Tensor& x) { x.copy_(x.sum(0, true).expand_as(x)); };
  codec.encode(extent, values, bytes, {[](const at::Tensor&) {}, columns});
  return bytes;
}

}  // namespace

TEST_CASE("nf4: a GPU encodes and decodes what the CPU does", "[gpu][nf4]") {
  const Codec codec(0);
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const auto& extent : {Codec::Extent{1, 3 * 16384 + 64 * 37, false}, Codec::Extent{3, 8192 + 192, false},
                               Codec::Extent{1, 64, false}, Codec::Extent{5, 64, false}, Codec::Extent{2, 16384, true},
                               Codec::Extent{2, 512 * 192, true, 192, 576, 192}}) {
      INFO(type << " " << extent.matrices << " x " << extent.elements);
      auto values = numbers({extent.matrices, extent.elements}, 0.4).to(type);
      values.narrow(1, 0, 64).zero_();
      const auto here = encoded(extent, values), there = encoded(extent, values.cuda());
      CHECK(at::equal(there.cpu(), here));
      const auto expected = at::empty_like(values);
      codec.decode(extent, here, expected);
      // Matrices that do not lie side by side; what is between them stays.
      auto wide = at::full({extent.matrices, extent.elements + 128}, 7, values.options().device(at::kCUDA));
      codec.decode(extent, there, wide.narrow(1, 0, extent.elements));
      CHECK(at::equal(wide.narrow(1, 0, extent.elements).cpu(), expected));
      CHECK(wide.narrow(1, extent.elements, 128).eq(7).all().item<bool>());
    }
  }
}

TEST_CASE("nf4: the rate of decoding, of a block of Llama 3.1 8B", "[.][nf4rate]") {
  const Codec codec(0);
  for (const std::int64_t elements : {4096LL * 4096, 4096LL * 14336, 2LL * 4096 * 14336}) {
    const Codec::Extent extent{1, elements, false};
    const auto bytes = encoded(extent, at::randn({1, elements}, at::TensorOptions(at::kCUDA).dtype(at::kBFloat16)));
    const auto values = at::empty({1, elements}, at::TensorOptions(at::kCUDA).dtype(at::kBFloat16));
    const auto decode = [&](int times) {
      for (int i = 0; i < times; ++i) codec.decode(extent, bytes, values);
      (void)values[0][0].item<float>();  // waits
    };
    constexpr int times = 2000;
    decode(times);  // until the clocks are up
    const auto start = std::chrono::steady_clock::now();
    decode(times);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    const double each = took.count() / times;
    std::printf("nf4 decode of %ld elements: %.1f us, %.2f TB/s written\n", static_cast<long>(elements), each * 1e6,
                2e-12 * static_cast<double>(elements) / each);
    CHECK(each > 0);
  }
}
