// Frozen weights that are in memory only in 8 bits.
#include "plugins/strategies/fp8/stored.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include "plugins/strategies/fp8/feed_forward.h"
#include "plugins/strategies/fp8/layers.h"
#include "plugins/strategies/fp8/numbers.h"

namespace stored_test {

using namespace fp8;
using namespace capstan;
using fp8_test::as_scaled;

namespace {

// The magnitudes differ so much by row and by column that some numbers are rounded again in the transpose.
at::Tensor spread(at::IntArrayRef shape) {
  at::Tensor x = at::randn(shape, at::kDouble);
  x.mul_(at::randn({shape[shape.size() - 2], 1}, at::kDouble).mul(4).exp());
  return x.mul_(at::randn({1, shape.back()}, at::kDouble).mul(2).exp());
}

at::Tensor gradient_of(const at::Tensor& y, const at::Tensor& x, const at::Tensor& g) {
  return torch::autograd::grad({y}, {x}, {g})[0];
}

}  // namespace

TEST_CASE("rows in 8 bits are those of the format, and what is exported is what is multiplied") {
  at::manual_seed(11);
  const auto w = spread({48, 32});
  const auto made = fp8_test::stored(w);
  CHECK(at::equal(made.numbers, as_scaled(w, true, fp8_test::e4m3)));
  CHECK_FALSE(at::equal(made.numbers, w));
  const Stored codec(2);
  CHECK(codec.stacked() == 1);
  const nn::Codec::Extent extent{48, 32, false};
  const auto bytes = at::empty({codec.bytes(extent)}, at::kByte);
  const auto decoded = at::empty_like(w);
  codec.encode(extent, w, bytes, {});
  codec.decode(extent, bytes, decoded);
  CHECK(at::equal(decoded, made.numbers));
  const auto narrow = at::empty(w.sizes(), at::kBFloat16);  // has all their digits
  codec.decode(extent, bytes, narrow);
  CHECK(at::equal(narrow.to(at::kDouble), made.numbers));
}

TEST_CASE("products and gradients are those of a weight that has these numbers, bit for bit") {
  at::manual_seed(12);
  const auto x = spread({24, 64}).requires_grad_();
  const auto made = fp8_test::stored(spread({48, 64}));
  const auto plain = fp8_test::multiplier();
  const auto y = Multiplier::multiply(made.how, x, made.bytes), expected = Multiplier::multiply(plain, x, made.numbers);
  CHECK(at::equal(y, expected));
  const auto g = spread({24, 48});
  CHECK(at::equal(gradient_of(y, x, g), gradient_of(expected, x, g)));
  // Some numbers of the transpose are others than the rows'.
  const auto columns = made.how->stored->columns(made.bytes);
  const auto again = columns.values.to(at::kDouble).mul(columns.scales).t();
  CHECK_FALSE(at::equal(again, made.numbers));
  const auto near = made.numbers.abs().amax(0, true).mul(std::ldexp(1, -17));
  CHECK((again - made.numbers).abs().le(near).all().item<bool>());
}

TEST_CASE("experts and feed-forward layers in 8 bits are those of their numbers") {
  at::manual_seed(13);
  const auto rows = spread({9, 32}).requires_grad_();
  const auto ends = at::tensor({4, 4, 9}, at::kInt);
  const auto up = fp8_test::stored(spread({3, 96, 32})), down = fp8_test::stored(spread({3, 32, 48}));
  const FeedForward bytes{up.how, down.how}, numbers{fp8_test::frozen(up.numbers), fp8_test::frozen(down.numbers)};
  const auto g = spread({9, 32});
  auto y = bytes.multiply(rows, up.bytes, down.bytes, ends);
  auto expected = numbers.multiply(rows, up.numbers, down.numbers, ends);
  CHECK(at::equal(y, expected));
  CHECK(at::equal(gradient_of(y, rows, g), gradient_of(expected, rows, g)));
  y = Multiplier::multiply_grouped(up.how, rows, up.bytes, ends);
  expected = Multiplier::multiply_grouped(fp8_test::multiplier(), rows, up.numbers, ends);
  CHECK(at::equal(y, expected));
}

TEST_CASE("scales of columns are found again when the weight is filled again") {
  at::manual_seed(14);
  const auto x = spread({16, 32}).requires_grad_(), g = spread({16, 16});
  const auto made = fp8_test::stored(spread({16, 32}));
  (void)gradient_of(Multiplier::multiply(made.how, x, made.bytes), x, g);
  const auto other = fp8_test::stored(spread({16, 32}).mul_(1e6));
  made.bytes.copy_(other.bytes);
  made.how->stored->keep_scales(other.how->stored->rows(other.bytes).scales.view({-1}));
  const auto y = Multiplier::multiply(made.how, x, made.bytes);
  const auto expected = Multiplier::multiply(fp8_test::multiplier(), x, other.numbers);
  CHECK(at::equal(y, expected));
  CHECK(at::equal(gradient_of(y, x, g), gradient_of(expected, x, g)));
}

TEST_CASE("pieces of rows and columns are scaled as ranks agree") {
  at::manual_seed(15);
  const auto w = spread({32, 64});
  const auto magnitudes = w.to(at::kFloat).abs();
  int rows = 0, columns = 0;
  Stored half(2);
  half.set_agree(
      [&](const at::Tensor& mine) {
        ++rows;
        mine.copy_(magnitudes.amax(1, true));
      },
      [&](const at::Tensor& mine) {
        ++columns;
        mine.fill_(448 * 4);
      });
  const auto whole = fp8_test::stored(w);
  const auto bytes = at::empty({32, 32}, at::kByte);
  half.keep_scales(half.encode_rows(w.narrow(1, 0, 32).contiguous(), bytes));
  CHECK(at::equal(bytes, whole.bytes.narrow(1, 0, 32)));
  CHECK(half.columns(bytes).scales.eq(4).all().item<bool>());
  (void)half.columns(bytes);
  CHECK(rows == 1);
  CHECK(columns == 1);
}

}  // namespace stored_test
