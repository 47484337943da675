// Products with a scale for each block: their operands are rounded, each once.
#include <ATen/ATen.h>
#include <capstan/ops/swiglu.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>

#include "plugins/strategies/fp8/feed_forward.h"
#include "plugins/strategies/fp8/layers.h"
#include "plugins/strategies/fp8/numbers.h"
#include "support/open_plugin.h"

namespace quantise_blocks_test {

using namespace fp8;
using namespace capstan;
using fp8_test::in_blocks;

namespace {

const fp8_test::Recipe by_block{.by_block = true};
constexpr std::int64_t row = 1, tile = 128;

// Numbers whose magnitudes differ by row, by column and from one to the next.
at::Tensor of_blocks(at::IntArrayRef shape) {
  at::Tensor x = at::randn(shape, at::kDouble);
  x.mul_(at::randn({shape[shape.size() - 2], 1}, at::kDouble).mul(2).exp());
  return x.mul_(at::randn({1, shape.back()}, at::kDouble).mul(2).exp());
}

bool nearly_equal(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs().max() <= b.abs().max() * 1e-14).item<bool>();
}

void check_same_gradient(const at::Tensor& x, const at::Tensor& y, const at::Tensor& expected) {
  CHECK(at::equal(y, expected));
  const auto g = of_blocks(y.sizes());
  CHECK(at::equal(torch::autograd::grad({y}, {x}, {g})[0], torch::autograd::grad({expected}, {x}, {g})[0]));
}

}  // namespace

TEST_CASE("blocks and tiles are rounded by scales of their own, and transposes have the same numbers of tiles") {
  at::manual_seed(21);
  const auto x = of_blocks({150, 384});
  const auto [rows, columns] = quantise_blocks_both(x);
  CHECK(rows.values.sizes() == at::IntArrayRef{256, 384});
  CHECK(rows.scales.sizes() == at::IntArrayRef{256, 3});
  CHECK(rows.scales.strides() == at::IntArrayRef{1, 256});
  const auto numbers = numbers_of_blocks(rows, at::kDouble);
  CHECK(at::equal(numbers.narrow(0, 0, 150), in_blocks(x, row)));
  CHECK(numbers.narrow(0, 150, 106).eq(0).all().item<bool>());
  CHECK(columns.values.sizes() == at::IntArrayRef{384, 256});
  CHECK(columns.scales.strides() == at::IntArrayRef{1, 384});
  CHECK(at::equal(numbers_of_blocks(columns, at::kDouble).narrow(1, 0, 150), in_blocks(x.t(), row)));
  CHECK(quantise_blocks(x.narrow(1, 0, 128)).scales.strides() == at::IntArrayRef{1, 256});
  const auto alone = quantise_blocks(x);
  CHECK(at::equal(alone.values.view(at::kByte), rows.values.view(at::kByte)));
  CHECK(at::equal(alone.scales, rows.scales));

  const auto w = of_blocks({256, 640});
  const auto tiles = quantise_tiles(w, false), turned = quantise_tiles(w, true);
  CHECK(at::equal(numbers_of_tiles(tiles, at::kDouble), in_blocks(w, tile)));
  CHECK(at::equal(turned.values.view(at::kByte), tiles.values.view(at::kByte).t()));
  CHECK(tiles.scales.sizes() == at::IntArrayRef{2, 8});  // as products take them
  CHECK(turned.scales.sizes() == at::IntArrayRef{5, 4});
  CHECK(at::equal(turned.scales.narrow(1, 0, 2), tiles.scales.narrow(1, 0, 5).t()));
}

TEST_CASE("a product by block and both gradients are those of rounded operands") {
  at::manual_seed(22);
  for (const bool of_weight : {true, false}) {
    INFO(of_weight);
    const auto x = of_blocks({5, 30, 256}).requires_grad_(), w = of_blocks({384, 256}).requires_grad_();
    const auto g = of_blocks({5, 30, 384});
    const auto how = fp8_test::multiplier({.weight_gradient = of_weight, .by_block = true});
    const auto y = Multiplier::multiply(how, x, w);
    const auto gradients = torch::autograd::grad({y}, {x, w}, {g});
    const auto rows = x.detach().view({-1, 256}), result = g.view({-1, 384}), matrix = in_blocks(w.detach(), tile);
    CHECK(nearly_equal(y.detach().view({-1, 384}), in_blocks(rows, row).mm(matrix.t())));
    CHECK(nearly_equal(gradients[0].view({-1, 256}), in_blocks(result, row).mm(matrix)));
    const auto expected = of_weight ? in_blocks(result.t(), row).mm(in_blocks(rows.t(), row).t()) : result.t().mm(rows);
    CHECK(nearly_equal(gradients[1], expected));
  }
}

TEST_CASE("an outlier costs only its block's digits") {
  at::manual_seed(23);
  const auto x = at::randn({128, 512}), w = at::randn({128, 512});
  x.select(1, 7).mul_(1e5);
  const auto error = [&](const fp8_test::Recipe& recipe) {
    auto without = x.clone();
    without.narrow(1, 0, 128).zero_();  // leaves what the outlier shares no block with
    auto other = w.clone();
    other.narrow(1, 0, 128).zero_();
    const auto y = Multiplier::multiply(fp8_test::multiplier(recipe), x, other), expected = without.mm(other.t());
    return ((y - expected).norm() / expected.norm()).item<double>();
  };
  CHECK(error(by_block) < 0.05);
  CHECK(error({}) > 0.1);
}

TEST_CASE("frozen weights and feed-forward layers by block: kept, only in bytes, and in turn") {
  at::manual_seed(24);
  const auto x = of_blocks({2, 70, 256}).requires_grad_();
  const auto w_up = of_blocks({512, 256}), w_down = of_blocks({128, 256});
  const auto how = fp8_test::multiplier(by_block);
  const auto up = fp8_test::frozen(w_up, by_block), down = fp8_test::frozen(w_down, by_block);
  check_same_gradient(x, Multiplier::multiply(up, x, w_up), Multiplier::multiply(how, x, w_up));
  const FeedForward both{up, down};
  check_same_gradient(x, both.multiply(x, w_up, w_down),
                      Multiplier::multiply(how, ops::swiglu(Multiplier::multiply(how, x, w_up)), w_down));
  // The numbers for which bytes stand are the tiles', and rounding them again changes none: both orientations.
  const auto stored_up = fp8_test::stored(w_up, by_block), stored_down = fp8_test::stored(w_down, by_block);
  CHECK(at::equal(stored_up.numbers, in_blocks(w_up, tile)));
  check_same_gradient(x, Multiplier::multiply(stored_up.how, x, stored_up.bytes), Multiplier::multiply(how, x, w_up));
  const FeedForward in_bytes{stored_up.how, stored_down.how};
  check_same_gradient(x, in_bytes.multiply(x, stored_up.bytes, stored_down.bytes), both.multiply(x, w_up, w_down));
}

TEST_CASE("tiles in bytes: what is exported is what is multiplied, and other values are found again") {
  at::manual_seed(25);
  const auto w = of_blocks({256, 384});
  const StoredTiles codec(384);
  CHECK(codec.stacked() == 0);
  const nn::Codec::Extent whole{1, w.numel()};
  const auto bytes = at::empty({codec.bytes(whole)}, at::kByte), decoded = at::empty({1, w.numel()}, at::kDouble);
  codec.encode(whole, w.view({1, -1}), bytes, {});
  codec.decode(whole, bytes, decoded);
  const auto made = fp8_test::stored(w, by_block), other = fp8_test::stored(w.mul(-1e6).flip(1), by_block);
  CHECK(at::equal(decoded.view(w.sizes()), made.numbers));
  (void)made.how->stored->columns(made.bytes);
  made.bytes.copy_(other.bytes);
  const StoredTiles again(384);
  made.how->stored->keep_scales(again.encode_rows(w.mul(-1e6).flip(1), at::empty_like(other.bytes)));
  CHECK(at::equal(made.how->stored->columns(made.bytes).scales, other.how->stored->columns(other.bytes).scales));
  // As many columns as have scales.
  const auto wide = of_blocks({128, StoredTiles::most_columns});
  CHECK(at::equal(fp8_test::stored(wide.to(at::kFloat), by_block).numbers,
                  numbers_of_tiles(quantise_tiles(wide.to(at::kFloat), false), at::kFloat)));
}

TEST_CASE("blocks that are not finite and numbers that become zero are counted") {
  const auto x = at::zeros({300, 256});
  x[0][0] = 448;
  x[0][1] = 0x1p-10;    // a tie between 0 and the smallest number
  x[0][130] = 0x1p-10;  // the largest of its block
  x[1][1] = 1;          // no row that is counted
  x[128].fill_(1);
  x[299][0] = std::nan("");
  const auto counts = at::zeros({4}, at::kLong);
  const auto made = quantise_blocks(x, counts);
  CHECK(at::equal(counts, at::tensor({1, 259, 1, 600}, at::kLong)));
  (void)quantise_blocks_both(x, counts);
  CHECK(at::equal(counts, at::tensor({2, 518, 2, 1200}, at::kLong)));
  const auto y = block_product(made, quantise_tiles(at::ones({128, 256}), false), at::kFloat);
  CHECK(y[299].isnan().all().item<bool>());
  CHECK(y.narrow(0, 0, 299).isfinite().all().item<bool>());
}

TEST_CASE("a dry run knows the shapes of blocks") {
  test::open_plugin("strategy/fp8.so");
  const auto x = at::empty({37, 256}, at::TensorOptions().dtype(at::kBFloat16).device(at::kMeta));
  const auto w = at::empty({128, 256}, x.options());
  const auto [rows, columns] = quantise_blocks_both(x);
  CHECK(rows.values.sizes() == at::IntArrayRef{128, 256});
  CHECK(rows.scales.strides() == at::IntArrayRef{1, 128});
  CHECK(columns.values.sizes() == at::IntArrayRef{256, 128});
  CHECK(quantise_tiles(w, true).scales.sizes() == at::IntArrayRef{2, 4});
  CHECK(Multiplier::multiply(fp8_test::multiplier(by_block), x, w).sizes() == at::IntArrayRef{37, 128});
}

}  // namespace quantise_blocks_test
