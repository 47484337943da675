// The rule: which records have which states, and what an update changes.
#include "plugins/optimizers/adam8bit/adam8bit.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan_catch.h>

#include <cmath>
#include <limits>

#include "plugins/optimizers/adam8bit/blocks.h"
#include "tests/plugins/optimizers/adam8bit/slices.h"

namespace adam8bit_test {

using namespace capstan;
using namespace adam8bit_test;

namespace {

std::vector<std::string> names(const adam8bit::Adam8bit& rule, const layout::Param& record) {
  std::vector<std::string> all;
  for (const auto& state : rule.states(record)) all.push_back(state.name);
  return all;
}

}  // namespace

TEST_CASE("adam8bit: matrices have codes; norms, embeddings and what is small have floats") {
  const auto rule = adam8bit_test::rule();
  const std::vector<std::string> in_8_bits{"exp_avg.codes", "exp_avg.scales", "exp_avg_sq.codes", "exp_avg_sq.scales"};
  const std::vector<std::string> floats{"exp_avg", "exp_avg_sq"};
  CHECK(names(rule, record({64, 64})) == in_8_bits);
  CHECK(names(rule, record({8, 32, 32})) == in_8_bits);
  CHECK(names(rule, record({63, 65})) == floats);
  CHECK(names(rule, record({8192})) == floats);
  auto table = record({1000, 64});
  table.usage = layout::Usage::table;
  CHECK(names(rule, table) == floats);
  const auto states = rule.states(record({64, 64}));
  CHECK(states[0].dtype == at::kByte);
  CHECK(states[0].block == 1);
  CHECK(states[1].dtype == at::kFloat);
  CHECK(states[1].block == 256);
  CHECK(rule.grain() == optimizer::Grain::record);
  CHECK(rule.is_fused());
}

TEST_CASE("adam8bit: betas that cannot be are refused") {
  for (const auto& betas : std::vector<std::vector<double>>{{0.9}, {0.9, 1.0}, {-0.1, 0.9}, {0.9, 0.99, 0.999}})
    CHECK_THROWS_WITH(adam8bit_test::rule(betas), Contains("optimizer.betas is") && Contains("two numbers in [0, 1)"));
}

TEST_CASE("adam8bit: a step that is skipped changes no bit") {
  auto rule = adam8bit_test::rule();
  for (const auto& shape : std::vector<std::vector<std::int64_t>>{{100, 70}, {7}}) {
    const auto n = layout::numel(shape);
    One one(rule, shape, gradients(n, 1).to(at::kFloat));
    one.slice.copy = one.slice.master.to(at::kBFloat16);
    one.slice.grad.copy_(gradients(n, 2));
    apply(rule, one, step(1));
    const auto before = one.all();
    one.slice.grad.fill_(std::numeric_limits<float>::infinity());
    apply(rule, one, step(2, 1, /*skips=*/true));
    CHECK(same(one.all(), before));
    one.slice.grad.copy_(gradients(n, 3));
    apply(rule, one, step(2));
    CHECK_FALSE(same(one.all(), before));
  }
}

TEST_CASE("adam8bit: follows AdamW, and decays a parameter that has no gradient") {
  auto rule = adam8bit_test::rule();
  constexpr std::int64_t n = std::int64_t{64} * 70, still = 5;
  constexpr int steps = 8;
  const auto wave = [](double phase) { return (at::arange(n, at::kDouble) * 1.7 + phase).sin(); };
  One one(rule, {64, 70}, wave(0));
  auto expected = one.slice.master.clone(), average = at::zeros_like(expected), square = at::zeros_like(expected);
  for (int i = 1; i <= steps; ++i) {
    one.slice.grad.copy_(wave(3) + 0.3 * wave(i));
    one.slice.grad[still].zero_();
    apply(rule, one, step(i, 4.0));
    const auto grad = one.slice.grad / 4;
    average = average * 0.9 + grad * 0.1;
    square = square * 0.98 + grad * grad * 0.02;
    const auto update = average / (1 - std::pow(0.9, i)) / ((square / (1 - std::pow(0.98, i))).sqrt() + 1e-8);
    expected = (expected - 1e-2 * update) * (1 - 1e-2 * 0.1);
  }
  CHECK(one.slice.master[still].item<double>() == Approx(wave(0)[still].item<double>() * std::pow(1 - 1e-3, steps)));
  // Eight updates of about 0.01 each; a code is some parts of a hundred from its number.
  CHECK((one.slice.master - expected).abs().mean().item<double>() < 1e-3);
  CHECK((one.slice.master - wave(0)).abs().mean().item<double>() > 3e-2);
}

TEST_CASE("adam8bit: gradients and copies of 16 bits, masters of all float types") {
  auto rule = adam8bit_test::rule();
  const std::int64_t n = 64 * 71;
  const auto grad = gradients(n, 2).to(at::kBFloat16);
  One wide(rule, {64, 71}, gradients(n, 1).to(at::kFloat));
  wide.slice.grad = grad.to(at::kFloat);
  One narrow(rule, {64, 71}, gradients(n, 1).to(at::kFloat));
  narrow.slice.grad = grad;
  narrow.slice.copy = at::zeros({n}, at::kBFloat16);
  apply(rule, wide, step(1));
  apply(rule, narrow, step(1));
  CHECK(at::equal(wide.slice.master, narrow.slice.master));
  CHECK(at::equal(narrow.slice.copy, narrow.slice.master.to(at::kBFloat16)));
  for (const auto type : {at::kDouble, at::kBFloat16, at::kHalf}) {
    One one(rule, {64, 71}, gradients(n, 1).to(type));
    one.slice.grad = grad.to(type);
    const auto expected = one.slice.master.to(at::kFloat) + (wide.slice.master - gradients(n, 1).to(at::kFloat));
    apply(rule, one, step(1));
    CHECK(one.slice.master.scalar_type() == type);
    CHECK(at::allclose(one.slice.master.to(at::kFloat), expected, type == at::kDouble ? 1e-5 : 1e-2, 1e-2));
    CHECK(at::equal(one.slice.state[0], wide.slice.state[0]) == (type != at::kHalf || at::equal(grad, grad.to(type))));
  }
}

TEST_CASE("adam8bit: the last block may be short, and blocks do not know of each other") {
  auto rule = adam8bit_test::rule();
  const std::int64_t n = 4096 + 100;
  One whole(rule, {1, n}, gradients(n, 1).to(at::kFloat));
  for (int i = 1; i <= 3; ++i) {
    whole.slice.grad.copy_(gradients(n, i));
    apply(rule, whole, step(i));
  }
  CHECK(whole.slice.state[1].numel() == 17);
  for (const std::int64_t begin : {std::int64_t{0}, std::int64_t{4096}}) {
    const auto size = std::min<std::int64_t>(n - begin, 4096);
    One part(rule, {1, n}, gradients(n, 1).to(at::kFloat).narrow(0, begin, size));
    for (int i = 1; i <= 3; ++i) {
      part.slice.grad.copy_(gradients(n, i).narrow(0, begin, size));
      apply(rule, part, step(i));
    }
    CHECK(at::equal(part.slice.master, whole.slice.master.narrow(0, begin, size)));
    CHECK(at::equal(part.slice.state[0], whole.slice.state[0].narrow(0, begin, size)));
    CHECK(at::equal(part.slice.state[3], whole.slice.state[3].narrow(0, begin / 256, adam8bit::blocks_of(size))));
  }
}

TEST_CASE("adam8bit: packing what was unpacked keeps the values") {
  auto rule = adam8bit_test::rule();
  const std::int64_t n = 4096 + 100;
  One one(rule, {1, n}, gradients(n, 1).to(at::kFloat));
  const auto zeros = rule.unpacked(*one.slice.record, one.slice.state);
  CHECK(zeros[0].eq(0).all().item<bool>());
  CHECK(zeros[1].eq(0).all().item<bool>());
  for (int i = 1; i <= 3; ++i) {
    one.slice.grad.copy_(gradients(n, i));
    apply(rule, one, step(i));
  }
  const auto values = rule.unpacked(*one.slice.record, one.slice.state);
  CHECK(values[0].scalar_type() == at::kFloat);
  std::vector<at::Tensor> packed;
  for (const auto& state : one.slice.state) packed.push_back(at::zeros_like(state));
  rule.pack(*one.slice.record, values, packed);
  CHECK(same(packed, one.slice.state));
}

}  // namespace adam8bit_test
