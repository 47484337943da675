// Rotary frequencies against the formulas, and the attention layer against its parts.
#include <ATen/ATen.h>
#include <capstan/nn/attention.h>
#include <capstan/ops/rotary.h>
#include <capstan_catch.h>

#include <cmath>
#include <numbers>

#include "nn/weights.h"

namespace rotary_test {

using namespace capstan;
using capstan::testing::bound;
using capstan::testing::difference;
using capstan::testing::numbers;

namespace {

/// The angles of position 1, read from a head that is (1, 0) in every pair.
std::vector<double> angles(const nn::Rotary& rotary, std::int64_t dim, at::ScalarType type) {
  auto x = at::zeros({1, 1, 1, dim}, at::TensorOptions(type));
  x.narrow(-1, 0, dim / 2).fill_(1);
  const auto out = rotary.forward(x, at::ones({1, 1}, at::kLong)).to(at::kDouble).flatten();
  std::vector<double> result;
  for (std::int64_t i = 0; i < dim / 2; ++i)
    result.push_back(std::atan2(out[i + dim / 2].item<double>(), out[i].item<double>()));
  return result;
}

nn::RotaryScaling llama3() {
  nn::RotaryScaling scaling;
  scaling.kind = nn::RotaryScaling::Kind::llama3;
  return scaling;
}

}  // namespace

TEST_CASE("YaRN keeps what turns often, divides what hardly turns, and sharpens attention") {
  constexpr std::int64_t dim = 128;
  nn::RotaryScaling yarn;
  yarn.kind = nn::RotaryScaling::Kind::yarn;
  yarn.factor = 4;
  yarn.original_length = 4096;
  const auto plain = angles({dim, 1e4, {}}, dim, at::kDouble), scaled = angles({dim, 1e4, yarn}, dim, at::kDouble);
  for (std::size_t i = 0; i < 64; ++i) {
    const auto turns = 4096 * plain[i] / (2 * std::numbers::pi);
    INFO("frequency " << i << " turns " << turns << " times");
    CHECK(scaled[i] <= plain[i] * (1 + 1e-14));
    CHECK(scaled[i] >= plain[i] / 4 * (1 - 1e-14));
    if (turns > 40) CHECK(scaled[i] == Approx(plain[i]).epsilon(1e-14));  // bounds are rounded to whole frequencies
    if (turns < 0.8) CHECK(scaled[i] == Approx(plain[i] / 4).epsilon(1e-14));
  }
  const auto each = 0.1 * std::log(4.0) + 1;
  CHECK(yarn.score_factor() == Approx(each * each).epsilon(1e-15));
  yarn.attention_factor = 1.5;
  CHECK(yarn.score_factor() == 2.25);
  CHECK(nn::RotaryScaling{}.score_factor() == 1);
}

TEST_CASE("rotary frequencies: theta to the power of -2 i / dim, and divided by a linear factor") {
  constexpr std::int64_t dim = 8;
  nn::RotaryScaling linear;
  linear.kind = nn::RotaryScaling::Kind::linear;
  linear.factor = 5;
  const auto plain = angles({dim, 500, {}}, dim, at::kDouble), divided = angles({dim, 500, linear}, dim, at::kDouble);
  for (std::size_t i = 0; i < 4; ++i) {
    const double frequency = std::pow(500.0, -2.0 * static_cast<double>(i) / dim);
    CHECK(plain[i] == Approx(frequency).epsilon(1e-14));
    CHECK(divided[i] == Approx(frequency / 5).epsilon(1e-14));
  }
  // In float32: pow of float32, so a few units in the last place.
  CHECK(angles({dim, 500, {}}, dim, at::kFloat)[3] == Approx(plain[3]).epsilon(1e-6));
}

// Llama 3.1's own numbers: theta 5e5, heads of 128, factor 8, wavelengths kept below 2048 and divided above 8192.
TEST_CASE("a part of the frequencies of a whole head turns its pairs, and the others stay") {
  const nn::Rotary rotary(8, 500, {}, {.turned = 4, .of_whole_head = true});
  CHECK(rotary.is_plain());
  const auto found = rotary.frequencies(at::kDouble);
  REQUIRE(found.size() == 4);
  CHECK(found[0] == 1);
  CHECK(found[1] == Approx(std::pow(500, -2.0 / 8)).epsilon(1e-15));
  CHECK(found[2] == 0);
  CHECK(found[3] == 0);
  const auto x = numbers({1, 1, 1, 8}, 0.3);
  const auto out = rotary.forward(x, at::full({1, 1}, 3, at::kLong)).flatten(), in = x.flatten();
  for (const std::int64_t i : {2, 3, 6, 7}) CHECK(out[i].item<double>() == in[i].item<double>());
  const auto turned = in[0].item<double>() * std::cos(3) - in[4].item<double>() * std::sin(3);
  CHECK(out[0].item<double>() == Approx(turned).epsilon(1e-14));
}

TEST_CASE("llama3 scaling keeps short wavelengths, divides long ones and blends between") {
  const auto got = angles({128, 5e5, llama3()}, 128, at::kDouble);
  int kept = 0, divided = 0, blended = 0;
  for (std::size_t i = 0; i < 64; ++i) {
    const double frequency = std::pow(5e5, -static_cast<double>(i) / 64);
    const double wavelength = 2 * std::numbers::pi / frequency;
    double expected = 0;
    if (wavelength < 2048) {
      expected = frequency;
      ++kept;
    } else if (wavelength > 8192) {
      expected = frequency / 8;
      ++divided;
    } else {
      const double smooth = (8192 / wavelength - 1) / 3;
      expected = (1 - smooth) * frequency / 8 + smooth * frequency;
      ++blended;
    }
    CHECK(got[i] == Approx(expected).epsilon(1e-12));
  }
  CHECK(kept > 0);
  CHECK(divided > 0);
  CHECK(blended > 0);
}

TEST_CASE("rotary attention is its parts, for any ratio of query to key heads and any rank's part of them") {
  const std::int64_t queries = 4, keys = GENERATE(4, 2, 1), dim = 6, hidden = 10, length = 7;
  const nn::Rotary rotary(dim, 100, {});
  const auto x = numbers({2, length, hidden}, 0.2);
  nn::Batch batch;
  batch.positions = at::arange(length, at::kLong).expand({2, length});
  batch.sample_ids = at::zeros({2}, at::kLong);
  const auto attend = [&](std::int64_t own_queries, std::int64_t own_keys) {
    const auto qkv = numbers({(own_queries + 2 * own_keys) * dim, hidden}, 0.4);
    const auto out = numbers({hidden, own_queries * dim}, 0.6);
    nn::Layer root("root");
    const nn::Dropout none(root, "attention", 0);
    nn::Attention::Kind kind;
    kind.spec.heads = {queries, keys, dim};
    kind.rotary = rotary;
    const nn::Attention layer(root, kind, {{bound("qkv", qkv), nullptr}, {bound("out", out), nullptr}, {}, {}});
    const auto part = [&](std::int64_t begin, std::int64_t heads) {
      return at::linear(x, qkv.narrow(0, begin * dim, heads * dim)).view({2, length, heads, dim});
    };
    const auto q = rotary.forward(part(0, own_queries), batch.positions).transpose(1, 2);
    const auto k = rotary.forward(part(own_queries, own_keys), batch.positions).transpose(1, 2);
    const auto v = part(own_queries + own_keys, own_keys).transpose(1, 2);
    const auto y = nn::causal_attention(q, k, v, none, batch, nullptr, 0).transpose(1, 2).flatten(2);
    return difference(layer.forward(x, batch, nullptr), at::linear(y, out));
  };
  // Other kernels for the same float64 numbers: sums of at most 24 terms of order 10.
  CHECK(attend(queries, keys) < 1e-12);
  if (keys > 1) CHECK(attend(queries / 2, keys / 2) < 1e-12);
  // More ranks than key heads: each holds a copy of one.
  if (keys < queries) CHECK(attend(queries / keys / 2, 1) < 1e-12);
}

}  // namespace rotary_test
