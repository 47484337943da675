// The format against its definition, written a second time in plain loops.
#include "plugins/strategies/nf4/codec.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>

#include <cmath>
#include <limits>
#include <vector>

#include "nn/weights.h"

namespace codec_test {

using namespace capstan;
using capstan::testing::numbers;
using nf4::Codec;

namespace {

const nn::Codec::Sum alone{[](const at::Tensor&) { FAIL("nothing to add up"); }};

at::Tensor encoded(const Codec& codec, const Codec::Extent& extent, const at::Tensor& values,
                   const nn::Codec::Sum& sum = alone) {
  auto bytes = at::empty({codec.bytes(extent)}, at::kByte);
  codec.encode(extent, values.view({extent.matrices, extent.elements}), bytes, sum);
  return bytes;
}

at::Tensor decoded(const Codec& codec, const Codec::Extent& extent, const at::Tensor& bytes, at::ScalarType type) {
  auto values = at::empty({extent.matrices, extent.elements}, type);
  codec.decode(extent, bytes, values);
  return values;
}

// The place of the nearest number of an ascending list; the lower one if two are equally near.
int nearest(const std::vector<float>& list, float x) {
  int best = 0;
  for (int i = 1; i < static_cast<int>(list.size()); ++i) {
    if (x > (list[static_cast<std::size_t>(i - 1)] + list[static_cast<std::size_t>(i)]) * 0.5F) best = i;
  }
  return best;
}

std::vector<float> list_of(const at::Tensor& x) {
  const at::Tensor flat = x.to(at::kFloat).contiguous().view({-1});
  return {flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel()};
}

/// One matrix by the definition: what its elements stand for.
std::vector<float> defined(const std::vector<float>& values) {
  const auto map = list_of(nf4::magnitude_map());
  const auto blocks = values.size() / 64;
  std::vector<float> magnitudes(blocks);
  double sum = 0;
  for (std::size_t b = 0; b < blocks; ++b) {
    for (std::size_t i = 0; i < 64; ++i) magnitudes[b] = std::max(magnitudes[b], std::abs(values[64 * b + i]));
    sum += std::nearbyint(static_cast<double>(magnitudes[b]) * 16777216);
  }
  const auto offset = static_cast<float>(sum / static_cast<double>(blocks) / 16777216);
  std::vector<float> result(values.size());
  for (std::size_t b = 0; b < blocks; ++b) {
    float largest = 0;
    const auto first = b / 256 * 256;
    for (auto c = first; c < std::min(blocks, first + 256); ++c)
      largest = std::max(largest, std::abs(magnitudes[c] - offset));
    const float by = largest == 0 ? 0 : 1 / largest;
    const float distance = map[static_cast<std::size_t>(nearest(map, (magnitudes[b] - offset) * by))] * largest;
    const float magnitude = distance + offset;
    const float inverse = magnitudes[b] == 0 ? 0 : 1 / magnitudes[b];
    for (std::size_t i = 64 * b; i < 64 * b + 64; ++i) {
      std::size_t code = 0;
      while (code < 15 && values[i] * inverse > nf4::borders[code]) ++code;
      result[i] = nf4::numbers[code] * magnitude;
    }
  }
  return result;
}

at::Tensor drawn(std::int64_t matrices, std::int64_t elements, at::ScalarType type) {
  // Blocks of other magnitudes each, one of zeros, and one of a single number.
  auto x = numbers({matrices, elements / 64, 64}, 0.3) * numbers({matrices, elements / 64, 1}, 0.9).abs();
  x.select(1, 0).zero_();
  x.select(1, 1).fill_(0.25);
  return x.view({matrices, elements}).to(type);
}

}  // namespace

TEST_CASE("the sixteen numbers are the normal distribution's, and each stands for itself") {
  // Quantiles of the normal distribution, half of them on each side of 0 (QLoRA, appendix E), by bisection of erfc.
  const auto quantile = [](double p) {
    double low = -10, high = 10;
    for (int i = 0; i < 200; ++i) {
      const double middle = (low + high) / 2;
      (std::erfc(-middle / std::sqrt(2)) / 2 < p ? low : high) = middle;
    }
    return low;
  };
  constexpr double edge = 0.9677083;
  for (int i = 0; i < 8; ++i) {
    const double up = quantile(edge + (0.5 - edge) * (8 - 1 - i) / 8) / quantile(edge);
    CHECK(nf4::numbers[static_cast<std::size_t>(8 + i)] == Approx(up).margin(1e-6));
  }
  for (int i = 0; i < 7; ++i) {
    const double down = -quantile(edge + (0.5 - edge) * i / 7) / quantile(edge);
    CHECK(nf4::numbers[static_cast<std::size_t>(i)] == Approx(down).margin(1e-6));
  }
  CHECK(nf4::numbers[7] == 0);
  for (std::size_t i = 0; i < 15; ++i) {
    CHECK(nf4::borders[i] == Approx((nf4::numbers[i] + nf4::numbers[i + 1]) / 2).margin(1e-6));
  }
}

TEST_CASE("the map of magnitudes ascends from -0.99 to 1 and has 0") {
  const auto map = list_of(nf4::magnitude_map());
  REQUIRE(map.size() == 256);
  CHECK(std::is_sorted(map.begin(), map.end()));
  CHECK(map.front() == -0.99296875F);
  CHECK(map[127] == 0);
  CHECK(map[128] == Approx(5.5e-7));
  CHECK(map.back() == 1);
}

TEST_CASE("what is decoded is what the definition says, to the bit") {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    // Two groups and a part of one; three matrices, each for itself.
    for (const auto& extent : {Codec::Extent{1, 2 * 16384 + 320, false}, Codec::Extent{3, 128, false}}) {
      const Codec codec(0);
      const auto values = drawn(extent.matrices, extent.elements, type);
      const auto result = decoded(codec, extent, encoded(codec, extent, values), type);
      for (std::int64_t m = 0; m < extent.matrices; ++m) {
        const at::Tensor expected = at::tensor(defined(list_of(values[m]))).to(type);
        CHECK(at::equal(result[m], expected));
      }
      CHECK(result.select(1, 0).abs().max().item<double>() == 0);  // a block of zeros
    }
  }
}

// What bitsandbytes 0.50.2 makes of the same matrix: quantize_4bit(w, blocksize=64, compress_statistics=True,
// quant_type="nf4") on CPU, and dequantize_4bit of that.
TEST_CASE("codes, magnitudes and decoded values are bitsandbytes'") {
  const Codec codec(0);
  const Codec::Extent extent{1, std::int64_t{2} * 16384, false};
  const auto place = at::arange(extent.elements, at::kLong);
  const auto block = place.div(64, "floor");
  const auto scale = (block * 37).remainder(64).add(1).to(at::kDouble) / 64 * 0.05;
  const auto values = ((place * 7919).remainder(2003).sub(1001).to(at::kDouble) / 1001 * scale).to(at::kBFloat16);
  const auto bytes = encoded(codec, extent, values);
  const auto parts = nf4::parts_of(extent, bytes);
  const auto digest = [](const at::Tensor& x) {
    const at::Tensor flat = x.reshape({-1}).to(at::kLong);
    return (flat * at::arange(flat.numel(), at::kLong).remainder(251).add(1)).sum().item<std::int64_t>();
  };
  CHECK(digest(parts.codes) == 255364588);
  CHECK(digest(parts.magnitudes) == 8070584);
  CHECK(list_of(parts.nested) == std::vector<float>{0.024660922586917877F, 0.024905063211917877F});
  CHECK(list_of(parts.offsets) == std::vector<float>{0.025143764913082123F});
  CHECK(digest(decoded(codec, extent, bytes, at::kBFloat16).view(at::kShort)) == -3912262815);
}

TEST_CASE("four bits are near the values") {
  const Codec codec(0);
  const Codec::Extent extent{1, 65536, false};
  const auto values = at::randn({65536}, at::kDouble);
  const auto difference = decoded(codec, extent, encoded(codec, extent, values), at::kDouble).view({-1}) - values;
  // What NF4 with blocks of 64 leaves of normal numbers; the paper's figure 3 has the same order.
  CHECK(difference.norm().item<double>() / values.norm().item<double>() == Approx(0.095).margin(0.01));
}

TEST_CASE("a rank's part is encoded as in the whole, on any number of ranks") {
  const Codec codec(0);
  constexpr std::int64_t numel = std::int64_t{4} * 16384;
  const auto values = drawn(1, numel, at::kBFloat16);
  const Codec::Extent whole{1, numel, false};
  const auto expected = decoded(codec, whole, encoded(codec, whole, values), at::kBFloat16).view({-1});
  for (const std::int64_t ranks : {2, 4}) {
    const Codec::Extent part{1, numel / ranks, true};
    std::vector<at::Tensor> sums;
    const auto mine = [&](std::int64_t r) { return values.narrow(1, r * part.elements, part.elements); };
    for (std::int64_t r = 0; r < ranks; ++r)
      encoded(codec, part, mine(r), {[&](const at::Tensor& sum) { sums.push_back(sum.clone()); }});
    for (std::int64_t r = 0; r < ranks; ++r) {
      const auto bytes =
          encoded(codec, part, mine(r), {[&](const at::Tensor& sum) { sum.copy_(at::stack(sums).sum(0)); }});
      CHECK(at::equal(decoded(codec, part, bytes, at::kBFloat16).view({-1}),
                      expected.narrow(0, r * part.elements, part.elements)));
    }
  }
}

TEST_CASE("parts that begin at groups may be of any size, and there may be none for a rank") {
  const Codec codec(0);
  constexpr std::int64_t group_elements = 16384, numel = 3 * group_elements + 640;
  CHECK(codec.grain() == group_elements);
  const auto values = drawn(1, numel, at::kBFloat16);
  const Codec::Extent whole{1, numel, false};
  const auto expected = decoded(codec, whole, encoded(codec, whole, values), at::kBFloat16).view({-1});
  const std::vector<std::int64_t> begins{0, 2 * group_elements, numel, numel};
  std::vector<at::Tensor> sums;
  const auto each = [&](const nn::Codec::Sum& sum, const auto& visit) {
    for (std::size_t r = 0; r + 1 < begins.size(); ++r) {
      const Codec::Extent part{1, begins[r + 1] - begins[r], true};
      visit(r, part, encoded(codec, part, values.narrow(1, begins[r], part.elements), sum));
    }
  };
  each({[&](const at::Tensor& sum) { sums.push_back(sum.clone()); }}, [](auto...) {});
  REQUIRE(sums.size() == 3);
  each({[&](const at::Tensor& sum) { sum.copy_(at::stack(sums).sum(0)); }},
       [&](std::size_t r, const Codec::Extent& part, const at::Tensor& bytes) {
         INFO(r);
         if (part.elements == 0) return;
         CHECK(at::equal(decoded(codec, part, bytes, at::kBFloat16).view({-1}),
                         expected.narrow(0, begins[r], part.elements)));
       });
}

TEST_CASE("a rank's columns are encoded as in the whole, on any number of ranks that hold them, some of them twice") {
  const Codec codec(1);
  // Rows that hold no whole number of groups, and groups that hold no whole number of rows.
  constexpr std::int64_t matrices = 2, rows = 128, columns = 384;
  const auto values = drawn(matrices, rows * columns, at::kBFloat16);
  const Codec::Extent whole{matrices, rows * columns};
  const auto expected = decoded(codec, whole, encoded(codec, whole, values), at::kBFloat16).view({-1, columns});
  for (const std::int64_t ranks : {2, 3, 6}) {
    for (const int holders : {1, 3}) {
      INFO(ranks << " ranks, each " << holders << " times");
      const auto width = columns / ranks;
      const auto part = [&](std::int64_t r) {
        return Codec::Extent{matrices, rows * width, true, width, columns, r * width};
      };
      const auto mine = [&](std::int64_t r) {
        return values.view({-1, columns}).narrow(1, r * width, width).reshape({matrices, rows * width});
      };
      // The mean's sums, then those of the groups.
      std::vector<at::Tensor> sums, places;
      const auto add = [&](const std::vector<at::Tensor>& all) {
        return [&all, holders](const at::Tensor& x) { x.copy_(at::stack(all).sum(0) * holders); };
      };
      const auto keep = [](std::vector<at::Tensor>& all) {
        return [&all](const at::Tensor& x) { all.push_back(x.clone()); };
      };
      const auto one = [](const at::Tensor& x) { x.select(-1, x.size(-1) - 1).fill_(1); };
      for (std::int64_t r = 0; r < ranks; ++r) encoded(codec, part(r), mine(r), {keep(sums), one});
      for (std::int64_t r = 0; r < ranks; ++r) encoded(codec, part(r), mine(r), {add(sums), keep(places)});
      for (std::int64_t r = 0; r < ranks; ++r) {
        const auto bytes = encoded(codec, part(r), mine(r), {add(sums), add(places)});
        CHECK(at::equal(decoded(codec, part(r), bytes, at::kBFloat16).view({-1, width}),
                        expected.narrow(1, r * width, width)));
      }
    }
  }
}

TEST_CASE("sizes that would divide what belongs together are refused") {
  const Codec codec(1);
  CHECK(codec.refusal({4, 16384 + 64, false}).empty());
  CHECK_THAT(codec.refusal({4, 100, false}), Contains("100 elements, which is no multiple of 64"));
  CHECK_THAT(codec.refusal({4, 16384 + 64, true}), Contains("16,448 elements, which is no multiple of 16,384"));
  CHECK_THAT(codec.refusal({1, std::int64_t{96} * 16384, true, 96, 192, 0}),
             Contains("96 of its 192 columns, which is no multiple of 64"));
  CHECK(codec.bytes({1, 16384, false}) == 1024 + 8192 + 256 + 16 + 16);
}

}  // namespace codec_test
