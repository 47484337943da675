// Products in 8 bits: the GPU's against their emulation on CPU.
#include "plugins/strategies/fp8/multiplier.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include "nn/weights.h"
#include "plugins/strategies/fp8/multiplier.cc"
#include "plugins/strategies/fp8/scaled.cc"

using namespace fp8;
using capstan::testing::numbers;

namespace {

// bfloat16's rounding of results, and sums that the GPU keeps in fewer digits than float32 ("fast") or in another
// order.
double tolerance(bool fast) { return fast ? 1.0 / 64 : 1.0 / 128; }

std::shared_ptr<Multiplier> multiplier(bool by_row, bool fast, at::ScalarType gradient) {
  auto made = std::make_shared<Multiplier>();
  made->by_row = by_row;
  made->fast = fast;
  made->gradient = gradient;
  made->layer = "linear";
  return made;
}

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

}  // namespace

TEST_CASE("operands are rounded alike on GPU and CPU", "[gpu]") {
  const auto x = drawn({48, 80}, 0.7);
  for (const auto format : {at::kFloat8_e4m3fn, at::kFloat8_e5m2}) {
    const auto here = quantise(x, scales_for(magnitudes(x, true), format), format);
    const auto x_there = x.cuda();
    const auto there = quantise(x_there, scales_for(magnitudes(x_there, true), format), format);
    CHECK(at::equal(there.scales.cpu(), here.scales));
    CHECK(at::equal(there.values.cpu().view(at::kByte), here.values.view(at::kByte)));
  }
}

TEST_CASE("products and gradients of a linear layer equal their emulation", "[gpu]") {
  for (const bool by_row : {true, false}) {
    for (const bool fast : {true, false}) {
      for (const auto gradient : {at::kFloat8_e4m3fn, at::kFloat8_e5m2}) {
        for (const std::int64_t tokens : {64, 37}) {
          INFO(by_row << " " << fast << " " << gradient << " " << tokens);
          const auto how = multiplier(by_row, fast, gradient);
          compare([&](const auto& in) { return Multiplier::multiply(how, in[0], in[1]); },
                  {drawn({tokens, 96}, 0.2), drawn({48, 96}, 0.5)}, tolerance(fast));
        }
      }
    }
  }
}

TEST_CASE("products and gradients of experts equal their emulation", "[gpu]") {
  const auto how = multiplier(true, true, at::kFloat8_e4m3fn);
  const auto ends = at::tensor({16, 16, 50, 80}, at::kInt);
  compare([&](const auto& in) { return Multiplier::multiply_grouped(how, in[0], in[1], ends.to(in[0].device())); },
          {drawn({80, 64}, 0.2), drawn({4, 32, 64}, 0.5)}, tolerance(true));
}
