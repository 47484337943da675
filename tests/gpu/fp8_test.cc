// Products in 8 bits: the GPU's against their emulation on CPU.
#include "plugins/strategies/fp8/multiplier.h"

#include <ATen/ATen.h>
#include <capstan/ops/swiglu.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include <chrono>
#include <cstdio>
#include <limits>

#include "gpu/eight_bits.h"
#include "nn/weights.h"
#include "ops/activation.h"
#include "plugins/strategies/fp8/feed_forward.h"
#include "plugins/strategies/fp8/frozen.h"
#include "plugins/strategies/fp8/layers.h"
#include "plugins/strategies/fp8/quantise.h"
#include "plugins/strategies/fp8/quantise_blocks.h"
#include "plugins/strategies/fp8/scaled.h"
#include "plugins/strategies/fp8/sent.h"
#include "plugins/strategies/fp8/stored.h"

using namespace fp8;
using capstan::ops::Activating;
using capstan::ops::activation;
using capstan::ops::activation_backward;
using capstan::testing::numbers;
using eight_bits::awkward;
using eight_bits::same;
using fp8_test::multiplier;

namespace {

// bfloat16's rounding of results, and sums that the GPU keeps in fewer digits than float32 ("fast") or in another
// order.
double tolerance(bool fast) { return fast ? 1.0 / 64 : 1.0 / 128; }

double distance(const at::Tensor& a, const at::Tensor& b) {
  const auto expected = b.cpu().to(at::kDouble);
  return ((a.cpu().to(at::kDouble) - expected).abs().max() / expected.abs().max()).item<double>();
}

template <class Multiply>
void compare(const Multiply& multiply, const std::vector<at::Tensor>& inputs, double limit) {
  std::vector<std::vector<at::Tensor>> results;
  for (const auto device : {at::kCUDA, at::kCPU}) {
    std::vector<at::Tensor> leaves;
    for (const auto& input : inputs) leaves.push_back(input.to(device).set_requires_grad(true));
    const auto y = multiply(leaves);
    results.push_back(torch::autograd::grad({y}, leaves, {numbers(y.sizes().vec(), 0.3).to(y.options())}));
    results.back().push_back(y.detach());
  }
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    INFO("result " << i);
    CHECK(distance(results[0][i], results[1][i]) < limit);
  }
}

at::Tensor drawn(std::vector<std::int64_t> shape, double seed) {
  return numbers(std::move(shape), seed).to(at::kBFloat16);
}

void check_all_ways(const at::Tensor& x) {
  const at::Tensor there = x.cuda();
  for (const auto format : {at::kFloat8_e4m3fn, at::kFloat8_e5m2}) {
    for (const bool by_row : {true, false}) {
      for (const bool transposed : {false, true}) {
        INFO(x.sizes() << " " << x.scalar_type() << " " << format << " " << by_row << " " << transposed);
        const Rounding how{format, by_row, transposed};
        const auto largest = magnitudes(x, how);
        CHECK(same(magnitudes(there, how), largest));
        const auto expected = quantise(x, how), found = quantise(there, how);
        CHECK(same(found.values, expected.values));
        CHECK(same(found.scales, expected.scales));
        const auto wide = largest.mul(3), given = wide.cuda();
        CHECK(same(quantise(there, how, given).values, quantise(x, how, wide).values));
      }
      const auto counts = at::zeros({4}, at::kLong), counted = counts.cuda();
      (void)quantise(x, {format, by_row, false, counts});
      (void)quantise(there, {format, by_row, false, counted});
      CHECK(at::equal(counted.cpu(), counts));
      if (x.dim() != 2) continue;
      (void)quantise_both(there, {format, by_row, false, counted});
      CHECK(at::equal(counted.cpu(), counts * 2));
      const auto [rows, columns] = quantise_both(there, {format, by_row});
      CHECK(same(rows.values, quantise(x, {format, by_row}).values));
      CHECK(same(rows.scales, quantise(x, {format, by_row}).scales));
      CHECK(same(columns.values, quantise(x, {format, by_row, true}).values));
      CHECK(same(columns.scales, quantise(x, {format, by_row, true}).scales));
    }
  }
}

}  // namespace

TEST_CASE("the kernels round as plain calls of ATen on CPU do, bit for bit", "[gpu][fp8][kernels]") {
  for (const auto type : {at::kBFloat16, at::kFloat}) {
    for (const auto& shape : std::vector<std::vector<std::int64_t>>{{1, 16},
                                                                    {16, 16},
                                                                    {37, 80},
                                                                    {128, 64},
                                                                    {130, 1040},
                                                                    {300, 4096},
                                                                    {9, 6144},
                                                                    {5, 14336},
                                                                    {3, 40000},
                                                                    {3, 33, 48},
                                                                    {2, 130, 144},
                                                                    // of one, two, four and eight thread blocks that
                                                                    // find a column's magnitude, and beyond
                                                                    {513, 48},
                                                                    {1100, 48},
                                                                    {2, 2061, 16},
                                                                    {5000, 16},
                                                                    {9001, 16},
                                                                    {17000, 16}})
      check_all_ways(awkward(shape, type));
  }
}

TEST_CASE("rows and tensors that are not finite become NaN in the kernels too", "[gpu][fp8][kernels]") {
  for (const double bad : {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
                           std::numeric_limits<double>::quiet_NaN()}) {
    auto x = awkward({40, 96}, at::kBFloat16);
    x[3][17] = bad;
    check_all_ways(x);
    x = awkward({40, 96}, at::kFloat);
    x[39][95] = bad;
    check_all_ways(x);
  }
}

TEST_CASE("magnitudes at the ends of the floats' range give the same scales", "[gpu][fp8][kernels]") {
  for (const double largest :
       {0.0, 1e-45, 1e-40, 1.2e-38, 1e-36, 1e-30, 448.0, 449.0, 57344.0, 57345.0, 1e30, 3.3e38}) {
    INFO(largest);
    check_all_ways(numbers({4, 32}, 0.1).div(2).mul(largest).to(at::kFloat));
    check_all_ways(at::full({2, 16}, largest, at::kBFloat16));
  }
}

TEST_CASE("SwiGLU and its gradient are rounded as they are in memory", "[gpu][fp8][kernels]") {
  for (const std::int64_t columns : {16, 48, 4096, 14336, 16384, 16400}) {
    for (const auto format : {at::kFloat8_e4m3fn, at::kFloat8_e5m2}) {
      for (const bool by_row : {true, false}) {
        INFO(columns << " " << format << " " << by_row);
        auto x = numbers({19, 2 * columns}, 0.3).to(at::kBFloat16).cuda();
        const auto g = awkward({19, columns}, at::kBFloat16).cuda();
        x[3][5] = std::numeric_limits<double>::infinity();
        const auto some = [] { return at::zeros({4}, at::TensorOptions().dtype(at::kLong).device(at::kCUDA)); };
        const auto counts = some(), counts_in_turn = some();
        const Rounding how{format, by_row, false, counts}, how_in_turn{format, by_row, false, counts_in_turn};
        const auto made = quantise_swiglu(x, how), in_turn = quantise(activation(x, Activating::swiglu), how_in_turn);
        CHECK(same(made.values, in_turn.values.cpu()));
        CHECK(same(made.scales, in_turn.scales.cpu()));
        const auto back = quantise_swiglu_backward(g, x, how);
        const auto back_in_turn = quantise(activation_backward(g, x, Activating::swiglu), how_in_turn);
        CHECK(at::equal(counts, counts_in_turn));
        CHECK(same(back.values, back_in_turn.values.cpu()));
        CHECK(same(back.scales, back_in_turn.scales.cpu()));
      }
    }
  }
}

TEST_CASE("what the kernels do not take goes another way to the same end", "[gpu][fp8]") {
  check_all_ways(awkward({5, 40}, at::kBFloat16));       // no multiple of 16
  check_all_ways(awkward({6, 48}, at::kDouble));         // another type
  check_all_ways(awkward({48, 32}, at::kBFloat16).t());  // strides
  check_all_ways(awkward({2, 3, 4, 16}, at::kBFloat16).select(1, 0));
  const auto x = awkward({1, 161}, at::kBFloat16).view({-1}).narrow(0, 1, 160).view({5, 32});
  const Rounding how;  // not at whole 16 bytes
  const auto there = awkward({1, 161}, at::kBFloat16).cuda().view({-1}).narrow(0, 1, 160).view({5, 32});
  CHECK(same(quantise(there, how).values, quantise(x, how).values));
}

TEST_CASE("products and gradients of a linear layer equal their emulation", "[gpu][fp8][products]") {
  for (const bool by_row : {true, false}) {
    for (const bool fast : {true, false}) {
      for (const auto gradient : {at::kFloat8_e4m3fn, at::kFloat8_e5m2}) {
        for (const std::int64_t tokens : {64, 37}) {
          INFO(by_row << " " << fast << " " << gradient << " " << tokens);
          const auto how = multiplier({.by_row = by_row, .gradient = gradient, .fast = fast});
          compare([&](const auto& in) { return Multiplier::multiply(how, in[0], in[1]); },
                  {drawn({tokens, 96}, 0.2), drawn({48, 96}, 0.5)}, tolerance(fast));
        }
      }
    }
  }
}

TEST_CASE("products and gradients of experts equal their emulation", "[gpu][fp8][products]") {
  const auto how = multiplier();
  const auto ends = at::tensor({16, 16, 50, 80}, at::kInt);
  compare([&](const auto& in) { return Multiplier::multiply_grouped(how, in[0], in[1], ends.to(in[0].device())); },
          {drawn({80, 64}, 0.2), drawn({4, 32, 64}, 0.5)}, tolerance(true));
}

TEST_CASE("a frozen weight's products are the same from its kept copies", "[gpu][fp8][products]") {
  const auto x = drawn({48, 96}, 0.2).cuda().set_requires_grad(true), w = drawn({32, 96}, 0.5).cuda();
  const auto how = multiplier(), keeping = fp8_test::frozen(w);
  const auto check = [&] {
    const auto y = Multiplier::multiply(keeping, x, w), expected = Multiplier::multiply(how, x, w);
    CHECK(at::equal(y, expected));
    const auto g = at::ones_like(y);
    CHECK(at::equal(torch::autograd::grad({y}, {x}, {g})[0], torch::autograd::grad({expected}, {x}, {g})[0]));
  };
  check();
  check();
  w.mul_(-0.3);
  check();
}

TEST_CASE("a frozen feed-forward layer is its parts in turn", "[gpu][fp8][products]") {
  for (const bool stacked : {false, true}) {
    INFO(stacked);
    const auto x = drawn({64, 96}, 0.2).cuda().set_requires_grad(true);
    const auto stack = [&](std::int64_t out, std::int64_t in, double seed) {
      return (stacked ? drawn({2, out, in}, seed) : drawn({out, in}, seed)).cuda();
    };
    const auto w_up = stack(64, 96, 0.5), w_down = stack(96, 32, 0.9);
    const auto ends = stacked ? std::optional(at::tensor({24, 64}, at::kInt).cuda()) : std::nullopt;
    const FeedForward both{fp8_test::frozen(w_up), fp8_test::frozen(w_down)};
    CHECK(FeedForward::takes(*both.up, *both.down));
    const auto multiplied = [&](const auto& how, const at::Tensor& rows, const at::Tensor& w) {
      return ends ? Multiplier::multiply_grouped(how, rows, w, *ends) : Multiplier::multiply(how, rows, w);
    };
    const auto y = both.multiply(x, w_up, w_down, ends);
    const auto expected = multiplied(both.down, capstan::ops::swiglu(multiplied(both.up, x, w_up)), w_down);
    CHECK(at::equal(y, expected));
    const auto g = drawn({64, 96}, 0.4).cuda();
    CHECK(at::equal(torch::autograd::grad({y}, {x}, {g})[0], torch::autograd::grad({expected}, {x}, {g})[0]));
  }
}

TEST_CASE("a weight that is only in 8 bits multiplies as on CPU, and is transposed to the same bits",
          "[gpu][fp8][products]") {
  for (const auto& shape : std::vector<std::vector<std::int64_t>>{
           {16, 16}, {48, 96}, {128, 128}, {144, 272}, {1040, 4096}, {4096, 144}, {3, 32, 64}, {2, 400, 208}}) {
    INFO(shape);
    const auto w = awkward(shape, at::kBFloat16);
    const auto here = fp8_test::stored(w), there = fp8_test::stored(w.cuda());
    CHECK(at::equal(there.bytes.cpu(), here.bytes));
    CHECK(same(there.how->stored->rows(there.bytes).scales, here.how->stored->rows(here.bytes).scales));
    const auto found = there.how->stored->columns(there.bytes), expected = here.how->stored->columns(here.bytes);
    CHECK(same(found.scales, expected.scales));
    CHECK(same(found.values, expected.values));
    // … which are those of a matrix of these numbers.
    CHECK(same(found.values, quantise(here.numbers, {at::kFloat8_e4m3fn, true, true}).values));
  }
  const auto x = drawn({64, 96}, 0.2).cuda().set_requires_grad(true);
  const auto made = fp8_test::stored(drawn({48, 96}, 0.5).cuda());
  const auto y = Multiplier::multiply(made.how, x, made.bytes);
  const auto expected = Multiplier::multiply(multiplier(), x, made.numbers);
  CHECK(at::equal(y, expected));
  const auto g = drawn({64, 48}, 0.4).cuda();
  CHECK(at::equal(torch::autograd::grad({y}, {x}, {g})[0], torch::autograd::grad({expected}, {x}, {g})[0]));
}

TEST_CASE("the rate of transposing 8 bits, of Llama 3.1 8B", "[.][fp8rate]") {
  for (const auto& [out, in] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}}) {
    // More of them than the second-level cache holds.
    std::vector<decltype(fp8_test::stored(at::Tensor()))> made;
    for (std::int64_t i = 0; i < (std::int64_t{1} << 28) / (out * in); ++i)
      made.push_back(
          fp8_test::stored(at::randn({out, in}, at::TensorOptions().dtype(at::kBFloat16).device(at::kCUDA))));
    constexpr std::size_t times = 50;
    const auto pass = [&](std::size_t i) {
      const auto& one = made[i % made.size()];
      (void)one.how->stored->columns(one.bytes);
    };
    for (std::size_t i = 0; i < made.size(); ++i) pass(i);
    (void)at::zeros({1}, at::kCUDA).item<float>();
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < times; ++i) pass(i);
    (void)at::zeros({1}, at::kCUDA).item<float>();
    const auto each = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / times;
    std::printf("fp8 transpose of %ld x %ld: %.1f us, %.2f TB/s of traffic\n", static_cast<long>(out),
                static_cast<long>(in), each * 1e6, 2e-12 * static_cast<double>(out * in) / each);
  }
}
