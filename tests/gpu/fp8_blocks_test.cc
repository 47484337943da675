// Products in 8 bits by block: the GPU's against their emulation on CPU. Its plugin's code is in fp8_test.cc.
#include <ATen/ATen.h>
#include <capstan/ops/swiglu.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>

#include "gpu/compare.h"
#include "gpu/eight_bits.h"
#include "ops/activation.h"
#include "plugins/strategies/fp8/feed_forward.h"
#include "plugins/strategies/fp8/layers.h"

using namespace fp8;
using capstan::ops::Activating;
using capstan::ops::activation;
using capstan::ops::activation_backward;
using eight_bits::awkward;
using eight_bits::same;

namespace {

const fp8_test::Recipe blocks{.by_block = true};
// bfloat16's rounding of results, and sums in another order.
constexpr double tolerance_of_blocks = 1.0 / 128;

bool same_blocks(const Quantised& there, const Quantised& here) {
  return same(there.values, here.values) && same(there.scales, here.scales) &&
         there.scales.strides() == here.scales.strides();
}

at::Tensor no_counts() { return at::zeros({4}, at::kLong); }

void check_blocks(const at::Tensor& x, const at::Tensor& there) {
  INFO(x.sizes() << " " << x.scalar_type());
  const auto counts = no_counts(), counted = no_counts().cuda();
  const auto expected = quantise_blocks(x, counts);
  CHECK(same_blocks(quantise_blocks(there, counted), expected));
  CHECK(at::equal(counted.cpu(), counts));
  const auto [rows, columns] = quantise_blocks_both(there, counted);
  CHECK(at::equal(counted.cpu(), counts * 2));
  const auto here = quantise_blocks_both(x);
  CHECK(same_blocks(rows, here.first));
  CHECK(same_blocks(columns, here.second));
}

at::Tensor of_blocks(std::vector<std::int64_t> shape, double seed) {
  return capstan::testing::numbers(std::move(shape), seed).to(at::kBFloat16);
}

}  // namespace

TEST_CASE("the kernels round blocks and tiles as plain calls of ATen on CPU do, bit for bit", "[gpu][fp8][blocks]") {
  for (const auto type : {at::kBFloat16, at::kFloat}) {
    for (const auto& shape : std::vector<std::vector<std::int64_t>>{
             {1, 128}, {37, 256}, {128, 128}, {300, 640}, {513, 384}, {129, 14336}, {4096, 256}}) {
      const auto x = awkward(shape, type);
      check_blocks(x, x.cuda());
    }
    for (const auto& shape :
         std::vector<std::vector<std::int64_t>>{{128, 128}, {256, 640}, {640, 256}, {1024, 4096}, {384, 14336}}) {
      const auto w = awkward(shape, type);
      for (const bool transposed : {false, true}) {
        INFO(w.sizes() << " " << transposed);
        CHECK(same_blocks(quantise_tiles(w.cuda(), transposed), quantise_tiles(w, transposed)));
      }
    }
  }
}

TEST_CASE("blocks that are not finite, and at the ends of the floats' range", "[gpu][fp8][blocks]") {
  for (const double bad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    auto x = awkward({140, 384}, at::kBFloat16);
    x[3][17] = bad;
    x[139][383] = bad;
    check_blocks(x, x.cuda());
    const auto w = x.narrow(0, 0, 128).contiguous();
    CHECK(same_blocks(quantise_tiles(w.cuda(), false), quantise_tiles(w, false)));
  }
  for (const double largest : {0.0, 1e-45, 1e-40, 1e-36, 1e-30, 448.0, 449.0, 1e30, 3.3e38}) {
    INFO(largest);
    const auto x = capstan::testing::numbers({4, 128}, 0.1).div(2).mul(largest).to(at::kFloat);
    check_blocks(x, x.cuda());
  }
}

TEST_CASE("what the kernels of blocks do not take goes another way to the same end", "[gpu][fp8][blocks]") {
  const auto x = awkward({48, 256}, at::kDouble);
  check_blocks(x, x.cuda());
  const auto strided = awkward({256, 50}, at::kBFloat16);
  check_blocks(strided.t(), strided.cuda().t());
  const auto odd = awkward({1, 128 * 5 + 1}, at::kBFloat16);  // not at whole 16 bytes
  const auto cut = [](const at::Tensor& of) { return of.view({-1}).narrow(0, 1, 128 * 5).view({5, 128}); };
  check_blocks(cut(odd), cut(odd.cuda()));
}

TEST_CASE("SwiGLU and its gradient are rounded by block as they are in memory", "[gpu][fp8][blocks]") {
  for (const std::int64_t columns : {128, 384, 14336}) {
    INFO(columns);
    auto x = of_blocks({150, 2 * columns}, 0.3).cuda();
    const auto g = awkward({150, columns}, at::kBFloat16).cuda();
    x[3][5] = std::numeric_limits<double>::infinity();
    const auto counts = no_counts().cuda(), in_turn = no_counts().cuda();
    const auto expected = quantise_blocks(activation(x, Activating::swiglu), in_turn);
    const auto made = quantise_swiglu_blocks(x, counts);
    CHECK(same(made.values, expected.values.cpu()));
    CHECK(same(made.scales, expected.scales.cpu()));
    const auto back = quantise_swiglu_blocks_backward(g, x, counts);
    const auto back_in_turn = quantise_blocks(activation_backward(g, x, Activating::swiglu), in_turn);
    CHECK(same(back.values, back_in_turn.values.cpu()));
    CHECK(same(back.scales, back_in_turn.scales.cpu()));
    CHECK(at::equal(counts, in_turn));
  }
}

// The widths have tiles that are and are not in whole fours; the numbers of rows are and are not whole blocks.
TEST_CASE("products and gradients by block equal their emulation", "[gpu][fp8][blocks][products]") {
  for (const std::int64_t tokens : {128, 37, 300}) {
    for (const auto& [out, in] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{128, 128}, {640, 512}, {512, 640}}) {
      INFO(tokens << " tokens, " << out << " x " << in);
      const auto how = fp8_test::multiplier(blocks);
      const Inputs inputs{of_blocks({tokens, in}, 0.2), of_blocks({out, in}, 0.5)};
      const Function multiply = [&](const Inputs& x) { return Multiplier::multiply(how, x[0], x[1]); };
      Inputs there;
      for (const auto& input : inputs) there.push_back(on_gpu(input));
      const auto found = all_of(multiply, there), expected = all_of(multiply, inputs);
      for (std::size_t i = 0; i < found.size(); ++i) {
        INFO("result " << i);
        CHECK(distance(found[i], expected[i]) < tolerance_of_blocks);
      }
    }
  }
}

TEST_CASE("frozen layers by block: kept, and only in bytes, to the same bits", "[gpu][fp8][blocks][products]") {
  const auto x = of_blocks({150, 256}, 0.2).cuda().set_requires_grad(true);
  const auto w_up = of_blocks({768, 256}, 0.5), w_down = of_blocks({256, 384}, 0.9);
  const auto here = fp8_test::stored(w_up, blocks);
  const auto up = fp8_test::stored(w_up.cuda(), blocks), down = fp8_test::stored(w_down.cuda(), blocks);
  CHECK(at::equal(up.bytes.cpu(), here.bytes));
  CHECK(same_blocks(up.how->stored->columns(up.bytes), here.how->stored->columns(here.bytes)));
  const FeedForward in_bytes{up.how, down.how};
  const FeedForward kept{fp8_test::frozen(w_up.cuda(), blocks), fp8_test::frozen(w_down.cuda(), blocks)};
  const auto how = fp8_test::multiplier(blocks);
  const auto y = in_bytes.multiply(x, up.bytes, down.bytes), again = kept.multiply(x, w_up.cuda(), w_down.cuda());
  const auto in_turn =
      Multiplier::multiply(how, capstan::ops::swiglu(Multiplier::multiply(how, x, w_up.cuda())), w_down.cuda());
  CHECK(at::equal(y, again));
  CHECK(at::equal(y, in_turn));
  const auto g = of_blocks({150, 256}, 0.4).cuda();
  const auto of_x = torch::autograd::grad({y}, {x}, {g})[0];
  CHECK(at::equal(of_x, torch::autograd::grad({again}, {x}, {g})[0]));
  CHECK(at::equal(of_x, torch::autograd::grad({in_turn}, {x}, {g})[0]));
}
