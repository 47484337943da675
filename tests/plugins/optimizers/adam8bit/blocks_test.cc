// Code books and codes, number by number.
#include "plugins/optimizers/adam8bit/blocks.h"

#include <capstan_catch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace blocks_test {

using namespace adam8bit;

namespace {

#include "vectors.inc"

// The nearest of the codes by their definition: the border between two is the middle, which belongs to the even one.
int searched(const float (&book)[code_count], float x) {
  int code = 0;
  while (code + 1 < code_count) {
    const float middle = (book[code] + book[code + 1]) * 0.5F;
    if (x < middle || (x == middle && code % 2 == 0)) break;
    ++code;
  }
  return code;
}

int code_of(float x) { return signed_code(tables, x, std::fabs(x)); }

// Each border and its neighbours, and numbers of all magnitudes.
std::vector<float> awkward(const float (&book)[code_count]) {
  std::vector<float> all{0, std::numeric_limits<float>::denorm_min(), 1, std::nextafter(1.0F, 2.0F)};
  for (int i = 0; i + 1 < code_count; ++i) {
    float x = std::fabs((book[i] + book[i + 1]) * 0.5F);
    all.insert(all.end(), {x, std::nextafter(x, 0.0F), std::nextafter(x, 2.0F), std::fabs(book[i])});
  }
  std::mt19937 random(7);
  std::uniform_real_distribution<float> exponents(-26, 0);
  for (int i = 0; i < 200000; ++i) all.push_back(std::exp2(exponents(random)));
  return all;
}

struct Coded {
  std::vector<std::uint8_t> codes, square_codes;
  std::vector<float> scales, square_scales;
  explicit Coded(std::size_t n)
      : codes(n),
        square_codes(n),
        scales(static_cast<std::size_t>(blocks_of(static_cast<std::int64_t>(n)))),
        square_scales(scales.size()) {}
  Moments moments() { return {codes.data(), scales.data(), square_codes.data(), square_scales.data()}; }
  bool operator==(const Coded&) const = default;
};

}  // namespace

TEST_CASE("adam8bit: the code books are bitsandbytes'") {
  CHECK(std::equal(std::begin(signed_book), std::end(signed_book), std::begin(tables.signed_value)));
  CHECK(std::equal(std::begin(unsigned_book), std::end(unsigned_book), std::begin(tables.without.value)));
}

TEST_CASE("adam8bit: each number gets its nearest code, and a middle the even one") {
  int wrong = 0;
  for (const float x : awkward(signed_book)) {
    wrong += code_of(x) == searched(signed_book, x) ? 0 : 1;
    // A negative number that is nearest to zero gets the smallest negative code.
    const int expected = searched(signed_book, -x);
    wrong += code_of(-x) == (x > 0 ? std::min(expected, signed_zero - 1) : expected) ? 0 : 1;
  }
  for (const float x : awkward(unsigned_book)) wrong += unsigned_code(tables, x) == searched(unsigned_book, x) ? 0 : 1;
  CHECK(wrong == 0);
}

TEST_CASE("adam8bit: moments that were decoded come back to the bit") {
  constexpr std::size_t n = 256 * 40 + 19;
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  std::vector<float> average(n), square(n);
  for (std::size_t i = 0; i < n; ++i) {
    average[i] = normal(random) * std::exp2(normal(random) * 6);
    square[i] = average[i] * average[i];
  }
  std::fill_n(average.begin() + 512, 256, 0.0F);
  std::fill_n(square.begin() + 512, 256, 0.0F);
  for (std::size_t i = 768; i < 1024; ++i) average[i] = -std::fabs(average[i]);  // the largest is negative
  Coded coded(n), after(n);
  const auto size = static_cast<std::int64_t>(n);
  encode(coded.moments(), size, average.data(), square.data());
  CHECK(coded.scales[2] == 0);
  std::vector<float> decoded(n), decoded_square(n);
  decode(coded.moments(), size, decoded.data(), decoded_square.data());
  encode(after.moments(), size, decoded.data(), decoded_square.data());
  CHECK(after == coded);
}

TEST_CASE("adam8bit: a scale of the smallest number is no division by zero") {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const float average[] = {tiny, -tiny, 0, 2 * tiny}, square[] = {0, tiny, 0, 0};
  Coded coded(4);
  encode(coded.moments(), 4, average, square);
  float decoded[4], decoded_square[4];
  decode(coded.moments(), 4, decoded, decoded_square);
  CHECK(std::equal(std::begin(average), std::end(average), std::begin(decoded)));
  CHECK(std::equal(std::begin(square), std::end(square), std::begin(decoded_square)));
}

}  // namespace blocks_test
