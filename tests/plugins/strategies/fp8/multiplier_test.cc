// Products in 8 bits and their gradients are the products of rounded operands, each rounded once.
#include "plugins/strategies/fp8/multiplier.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include "plugins/strategies/fp8/layers.h"
#include "plugins/strategies/fp8/numbers.h"
#include "predict/work_counter.h"
#include "support/open_plugin.h"

namespace multiplier_test {

using namespace fp8;
using namespace capstan;
using fp8_test::as_scaled;
using fp8_test::drawn;
using fp8_test::multiplier;

namespace {

// Sums of up to 96 products of such numbers are exact in float64, whatever their order.
constexpr double exact = 0;

using Case = fp8_test::Recipe;

const std::vector<Case> cases{{true, at::kFloat8_e4m3fn, true},
                              {true, at::kFloat8_e5m2, true},
                              {true, at::kFloat8_e4m3fn, false},
                              {false, at::kFloat8_e4m3fn, true},
                              {false, at::kFloat8_e5m2, true}};

fp8_test::Format format(const Case& of) { return of.gradient == at::kFloat8_e5m2 ? fp8_test::e5m2 : fp8_test::e4m3; }

double difference(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

}  // namespace

TEST_CASE("a product and both gradients are those of rounded operands") {
  at::manual_seed(3);
  for (const auto& each : cases) {
    INFO(each.by_row << " " << each.gradient << " " << each.weight_gradient);
    const auto x = drawn({5, 7, 48}).requires_grad_(), w = drawn({32, 48}).requires_grad_();
    const auto g = drawn({5, 7, 32});
    const auto y = Multiplier::multiply(multiplier(each), x, w);
    const auto gradients = torch::autograd::grad({y}, {x, w}, {g});

    const auto rows = x.detach().view({-1, 48}), result = g.view({-1, 32}), matrix = w.detach();
    const auto row = each.by_row;
    CHECK(difference(y.detach().view({-1, 32}),
                     as_scaled(rows, row, fp8_test::e4m3).mm(as_scaled(matrix, row, fp8_test::e4m3).t())) <= exact);
    CHECK(difference(gradients[0].view({-1, 48}),
                     as_scaled(result, row, format(each)).mm(as_scaled(matrix.t(), row, fp8_test::e4m3).t())) <= exact);
    const auto of_weight =
        each.weight_gradient ? as_scaled(result.t(), row, format(each)).mm(as_scaled(rows.t(), row, fp8_test::e4m3).t())
                             : result.t().mm(rows);
    CHECK(difference(gradients[1], of_weight) <= exact);
  }
}

TEST_CASE("frozen weights and inputs without gradient cost none") {
  const auto x = drawn({6, 32}), w = drawn({16, 32});
  CHECK(Multiplier::multiply(multiplier(cases[0]), x.clone().requires_grad_(), w).requires_grad());
  const auto of_weight = Multiplier::multiply(multiplier(cases[0]), x, w.clone().requires_grad_());
  CHECK(of_weight.requires_grad());
  CHECK_FALSE(Multiplier::multiply(multiplier(cases[0]), x, w).requires_grad());
}

TEST_CASE("where autograd is off an input is not rounded for a gradient") {
  test::open_plugin("strategy/fp8.so");
  const auto on_meta = at::TensorOptions().device(at::kMeta).dtype(at::kBFloat16);
  const auto x = at::empty({64, 32}, on_meta), w = at::empty({16, 32}, on_meta).set_requires_grad(true);
  const auto bytes = [&] {
    const predict::WorkCounter counted;
    Multiplier::multiply(multiplier(cases[0]), x, w);
    return counted.work().bytes;
  };
  const auto learning = bytes();
  const at::NoGradGuard no_grad;
  CHECK(bytes() <= learning - 64 * 32);  // the transpose in 8 bits
}

TEST_CASE("experts: each row times its own matrix, with experts that have none") {
  at::manual_seed(4);
  const auto x = drawn({9, 32}).requires_grad_(), w = drawn({4, 16, 32}).requires_grad_();
  const auto g = drawn({9, 16});
  const auto ends = at::tensor({4, 4, 7, 9}, at::kInt);
  const auto y = Multiplier::multiply_grouped(multiplier(cases[1]), x, w, ends);
  const auto gradients = torch::autograd::grad({y}, {x, w}, {g});
  const std::vector<std::pair<std::int64_t, std::int64_t>> parts{{0, 4}, {4, 4}, {4, 7}, {7, 9}};
  for (std::int64_t e = 0; e < 4; ++e) {
    INFO(e);
    const auto [begin, end] = parts[static_cast<std::size_t>(e)];
    const auto matrix = w.detach()[e];
    if (begin == end) {
      CHECK(gradients[1][e].eq(0).all().item<bool>());
      continue;
    }
    const auto rows = x.detach().slice(0, begin, end), result = g.slice(0, begin, end);
    CHECK(difference(y.detach().slice(0, begin, end),
                     as_scaled(rows, true, fp8_test::e4m3).mm(as_scaled(matrix, true, fp8_test::e4m3).t())) <= exact);
    CHECK(difference(gradients[0].slice(0, begin, end),
                     as_scaled(result, true, fp8_test::e5m2).mm(as_scaled(matrix.t(), true, fp8_test::e4m3).t())) <=
          exact);
    CHECK(difference(gradients[1][e], result.t().mm(rows)) == Approx(0).margin(1e-9));
  }
  const auto none = Multiplier::multiply_grouped(multiplier(cases[0]), x.narrow(0, 0, 0), w, at::zeros({4}, at::kInt));
  CHECK(none.sizes() == at::IntArrayRef{0, 16});
}

TEST_CASE("a product is near the one it stands for") {
  at::manual_seed(5);
  const auto x = at::randn({64, 256}), w = at::randn({48, 256});
  const auto y = Multiplier::multiply(multiplier(cases[0]), x, w), whole = x.mm(w.t());
  // e4m3 rounds by at most 2^-4 of a value, both operands independently: errors of 256 terms average out.
  CHECK(((y - whole).norm() / whole.norm()).item<double>() < 0.05);
  CHECK(((y - whole).norm() / whole.norm()).item<double>() > 0.005);
}

}  // namespace multiplier_test
