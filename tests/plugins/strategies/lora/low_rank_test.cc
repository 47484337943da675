#include "plugins/strategies/lora/low_rank.h"

#include <ATen/ATen.h>
#include <capstan/ops/linear.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/gradients.h"
#include "ops/weight_gradients.h"

namespace low_rank_test {

using namespace capstan;
using lora::add_low_rank_;
using lora::inner_of;
using testing::all_of;
using testing::Inputs;
using testing::jacobian_error;
using testing::waves;

namespace {

constexpr std::int64_t in = 6, features = 16;

/// Next to a product with `features` results: [begin, begin + columns) of them.
struct Adapter {
  std::int64_t begin, columns, rank;
  double scale;
};

using Adapters = std::vector<Adapter>;

/// q, k and v of different widths; q and v; two halves; all of it and a part again, with ranks of their own.
const std::vector<Adapters> layers{{{0, 8, 3, 0.5}, {8, 4, 3, 0.5}, {12, 4, 3, 0.5}},
                                   {{0, 8, 2, 1}, {12, 4, 2, 1}},
                                   {{0, 8, 1, 2}, {8, 8, 1, 2}},
                                   {{0, 16, 5, 0.7}, {3, 7, 2, 1.3}, {15, 1, 1, 1}}};

/// x, the frozen matrix, and each adapter's two.
Inputs inputs_of(const Adapters& adapters) {
  Inputs all{waves({2, 5, in}, 0.1), waves({features, in}, 0.5)};
  for (std::size_t i = 0; i < adapters.size(); ++i) {
    const auto phase = 0.2 * static_cast<double>(i);
    all.push_back(waves({adapters[i].rank, in}, 0.7 + phase));
    all.push_back(waves({adapters[i].columns, adapters[i].rank}, 0.9 + phase));
  }
  return all;
}

at::Tensor one_by_one(const Inputs& x, const Adapters& adapters) {
  auto y = at::linear(x[0], x[1]);
  for (std::size_t i = 0; i < adapters.size(); ++i) {
    const auto& [begin, columns, rank, scale] = adapters[i];
    y = add_low_rank_(y, inner_of(x[0], {x[2 * i + 2]}), {{x[2 * i + 3], scale, begin}});
  }
  return y;
}

Inputs downs_of(const Inputs& x) {
  Inputs downs;
  for (std::size_t i = 2; i < x.size(); i += 2) downs.push_back(x[i]);
  return downs;
}

at::Tensor add_all_(const at::Tensor& y, const at::Tensor& inner, const Inputs& x, const Adapters& adapters) {
  std::vector<lora::LowRank> added;
  for (std::size_t i = 0; i < adapters.size(); ++i)
    added.push_back({x[2 * i + 3], adapters[i].scale, adapters[i].begin});
  return add_low_rank_(y, inner, added);
}

at::Tensor together(const Inputs& x, const Adapters& adapters) {
  return add_all_(at::linear(x[0], x[1]), inner_of(x[0], downs_of(x)), x, adapters);
}

}  // namespace

TEST_CASE("a low-rank adapter is added in place, to all features or to a part, as addmm_ adds it") {
  for (const std::int64_t begin : {0, 3}) {
    const auto rows = begin == 0 ? 8 : 4;
    const Inputs in{waves({2, 3, 6}, 0.1), waves({8, 6}, 0.5), waves({2, 6}, 0.7), waves({rows, 2}, 0.9)};
    const auto own = [begin](const Inputs& x) {
      const auto inner = at::linear(x[0], x[2]).flatten(0, -2);
      return add_low_rank_(at::linear(x[0], x[1]), inner, {{x[3], 0.5, begin}});
    };
    const auto plain = [begin](const Inputs& x) {
      const auto inner = at::linear(x[0], x[2]).flatten(0, -2);
      const auto y = at::linear(x[0], x[1]).flatten(0, -2);
      const auto columns = at::constant_pad_nd(at::mm(inner, x[3].t()) * 0.5, {begin, 8 - begin - x[3].size(0)});
      return (y + columns).view({2, 3, 8});
    };
    const auto got = all_of(own, in), wanted = all_of(plain, in);
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(at::allclose(got[i], wanted[i], 1e-13, 1e-13));
    CHECK(jacobian_error(own, in) < 1e-7);
  }
}

TEST_CASE("adapters of one layer add as one product what each adds by itself, and have the same gradients") {
  for (const auto& adapters : layers) {
    const auto apart = [&](const Inputs& x) { return one_by_one(x, adapters); };
    const auto joined = [&](const Inputs& x) { return together(x, adapters); };
    const auto all = inputs_of(adapters);
    const auto got = all_of(joined, all), wanted = all_of(apart, all);
    REQUIRE(got.size() == 3 + 2 * adapters.size());
    // Sums of up to 18 products of order 1 in another order.
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(at::allclose(got[i], wanted[i], 1e-13, 1e-13));
    CHECK(jacobian_error(joined, all) < 1e-7);
  }
}

// Inner and its gradient are rounded to 8 bits before what is computed of them, and results once more: 2^-8 each, of
// terms that are a few times larger than their sum. With another's columns the difference is as large as the numbers.
TEST_CASE("adapters of one layer in 16 bits, whose columns begin at any byte") {
  for (const auto& adapters : layers) {
    Inputs narrow, wide;
    for (const auto& each : inputs_of(adapters)) {
      narrow.push_back(each.to(at::kBFloat16));
      wide.push_back(narrow.back().to(at::kDouble));
    }
    const auto got = all_of([&](const Inputs& x) { return together(x, adapters); }, narrow);
    const auto wanted = all_of([&](const Inputs& x) { return one_by_one(x, adapters); }, wide);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto largest = wanted[i].abs().max().item<double>();
      CHECK((got[i].to(at::kDouble) - wanted[i]).abs().max().item<double>() <= largest / 16);
    }
  }
}

TEST_CASE("only what is trained gets a gradient") {
  const auto& adapters = layers.front();
  auto all = inputs_of(adapters);
  for (const std::size_t trained : {2, 5}) all[trained].set_requires_grad(true);
  const auto out = together(all, adapters);
  torch::autograd::backward({out}, {at::ones_like(out)});
  auto whole = inputs_of(adapters);
  for (auto& each : whole) each.set_requires_grad(true);
  const auto same = together(whole, adapters);
  torch::autograd::backward({same}, {at::ones_like(same)});
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(all[i].grad().defined() == (i == 2 || i == 5));
    if (all[i].grad().defined()) CHECK(at::equal(all[i].grad(), whole[i].grad()));
  }
}

// As a GPU computes them, where ops::linear leaves the gradient of the joined matrix to later: two micro-steps.
TEST_CASE("gradients of joined matrices that are left to later reach each of them, bit for bit") {
  for (const auto& adapters : layers) {
    const auto trained = [&] {
      auto all = inputs_of(adapters);
      for (auto& each : all) each.set_requires_grad(true);
      return all;
    };
    const auto backward = [&](const Inputs& x) {
      for (int i = 1; i <= 2; ++i) {
        const auto input = x[0] * i;
        const auto inner = ops::linear(input, at::cat(downs_of(x)), {}).flatten(0, -2);
        const auto loss = add_all_(ops::linear(input, x[1], {}), inner, x, adapters).pow(2).sum();
        torch::autograd::backward({loss}, {at::ones({}, loss.options())});
      }
    };
    const auto at_once = trained(), later = trained();
    backward(at_once);
    ops::WeightGradients left;
    {
      const ops::LeaveWeightGradients leave([&] { return &left; });
      backward(later);
    }
    for (const auto& down : downs_of(later)) CHECK_FALSE(down.grad().defined());
    left.compute();
    for (std::size_t i = 0; i < later.size(); ++i) CHECK(at::equal(later[i].grad(), at_once[i].grad()));
  }
}

}  // namespace low_rank_test
