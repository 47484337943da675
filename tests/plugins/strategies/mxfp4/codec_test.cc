// The format against its definition, written a second time in plain loops.
#include "plugins/strategies/mxfp4/codec.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>

#include <cmath>

namespace codec_test {

using namespace capstan;
using mxfp4::Codec;

namespace {

at::Tensor decoded(const Codec& codec, const Codec::Extent& extent, const at::Tensor& bytes, at::ScalarType type) {
  auto values = at::empty({extent.matrices, extent.elements}, type);
  codec.decode(extent, bytes, values);
  return values;
}

at::Tensor encoded(const Codec& codec, const Codec::Extent& extent, const at::Tensor& values) {
  auto bytes = at::empty({codec.bytes(extent)}, at::kByte);
  codec.encode(extent, values.view({extent.matrices, extent.elements}), bytes, {});
  return bytes;
}

// The nearest of the numbers, times the power of two that makes the largest 4 to 8; of two the one of even code.
float nearest(float x, float power) {
  float best = 0;
  int code = 0;
  for (int i = 1; i < 8; ++i) {
    const auto candidate = mxfp4::numbers[static_cast<std::size_t>(i)] * power;
    const auto apart = std::abs(std::abs(x) - candidate), before = std::abs(std::abs(x) - best);
    if (apart < before || (apart == before && i % 2 == 0 && code % 2 == 1)) {
      best = candidate;
      code = i;
    }
  }
  return std::copysign(best, x);
}

}  // namespace

TEST_CASE("an element is the nearest number times its group's power of two") {
  const Codec codec(1);
  const Codec::Extent extent{2, 96};
  auto values = at::arange(192, at::kFloat).mul(0.7).sin().mul(at::arange(192, at::kFloat).add(1).square());
  values.narrow(0, 32, 32).zero_();
  values[64] = 0.75F;  // as near to two numbers, where the group's largest is 4 to 8
  const auto got = decoded(codec, extent, encoded(codec, extent, values), at::kFloat).view({-1, 32});
  const auto rows = values.view({-1, 32});
  for (std::int64_t g = 0; g < rows.size(0); ++g) {
    const auto largest = rows[g].abs().max().item<float>();
    const float power = largest == 0 ? 1 : std::exp2(std::floor(std::log2(largest)) - 2);
    for (std::int64_t i = 0; i < 32; ++i) CHECK(got[g][i].item<float>() == nearest(rows[g][i].item<float>(), power));
  }
}

TEST_CASE("what was decoded is encoded to the same numbers, at every scale, and as the weight's dtype") {
  at::manual_seed(7);
  const Codec codec(1);
  const Codec::Extent extent{3, 64};
  const auto bytes = at::randint(0, 256, {codec.bytes(extent)}, at::kByte);
  mxfp4::parts_of(extent, bytes).scales.view({-1}).copy_(at::tensor({0, 1, 60, 127, 200, 250}, at::kByte));
  const auto values = decoded(codec, extent, bytes, at::kFloat);
  CHECK(values.isfinite().all().item<bool>());
  CHECK(at::equal(decoded(codec, extent, encoded(codec, extent, values), at::kFloat), values));
  CHECK(at::equal(decoded(codec, extent, bytes, at::kBFloat16).to(at::kFloat), values));
}

TEST_CASE("a rank reads its rows and its columns of codes as they are") {
  at::manual_seed(8);
  const Codec codec(1);
  const auto blocks = at::randint(0, 256, {4, 3, 16}, at::kByte), scales = at::randint(100, 140, {4, 3}, at::kByte);
  const nn::CodedMatrix matrix{"experts", "file", {4, 96}, {{"_blocks", blocks}, {"_scales", scales}}};
  const Codec::Extent all{1, 384};
  auto bytes = at::empty({codec.bytes(all)}, at::kByte);
  codec.read_matrices(all, 0, {matrix}, bytes);
  const auto whole = decoded(codec, all, bytes, at::kFloat).view({4, 96});
  const auto part = [&](const Codec::Extent& extent, std::int64_t first) {
    auto own = at::empty({codec.bytes(extent)}, at::kByte);
    codec.read_matrices(extent, first, {matrix}, own);
    return decoded(codec, extent, own, at::kFloat).view({-1});
  };
  CHECK(at::equal(part({1, 192, true}, 96), whole.slice(0, 1, 3).reshape(-1)));
  CHECK(at::equal(part({1, 128, true, 64, 96, 32}, 96), whole.slice(0, 1, 3).slice(1, 32, 96).reshape(-1)));
  CHECK(codec.refusal({1, 48}) == "a matrix on this rank has 48 elements, which is no multiple of 32");
  CHECK_THAT(codec.refusal({1, 96, true, 48, 96, 48}), Contains("48 of its 96 columns"));
}

}  // namespace codec_test
