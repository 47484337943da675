// What decoder blocks compute besides their products: each against the plain calls that it replaces.
#include <ATen/ATen.h>
#include <capstan/ops/grouped.h>
#include <capstan/ops/rotary.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include <capstan/ops/linear.h>
#include "ops/alibi_heads.h"
#include "ops/column_sums.h"
#include "ops/combine_rows.h"
#include "ops/jacobian.h"

using namespace capstan::ops;
using capstan::testing::jacobian_error;

namespace {

using Inputs = std::vector<at::Tensor>;

at::Tensor numbers(const std::vector<std::int64_t>& shape, double phase) {
  return at::arange(1, c10::multiply_integers(shape) + 1, at::kDouble).mul(0.7).add(phase).sin().mul(2).view(shape);
}

/// The result and all gradients of a weighting of it.
Inputs all_of(const capstan::testing::DifferentiableFunction& function, const Inputs& inputs) {
  Inputs leaves;
  for (const auto& input : inputs) leaves.push_back(input.detach().clone().set_requires_grad(true));
  const auto out = function(leaves);
  auto results = torch::autograd::grad({out}, leaves, {numbers(out.sizes().vec(), 0.3).to(out.scalar_type())});
  results.insert(results.begin(), out.detach());
  return results;
}

void check_equal(const Inputs& got, const Inputs& wanted) {
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(at::equal(got[i], wanted[i]));
}

const at::Tensor positions = at::tensor({0, 1, 2, 7, 0, 5, 6, 130}, at::kLong).view({2, 4});
const std::vector<double> frequencies{1.0, 0.3, 0.07};

}  // namespace

TEST_CASE("columns are summed in float32 at least, and rounded once") {
  const auto x = numbers({70, 6}, 0.1), of = numbers({70, 6}, 0.4), mean = numbers({70, 1}, 0.2),
             rstd = numbers({70, 1}, 0.9);
  CHECK(at::allclose(column_sums(x), x.sum(0), 1e-13, 1e-13));
  CHECK(at::equal(column_sums(x.to(at::kBFloat16)), x.to(at::kBFloat16).to(at::kFloat).sum(0).to(at::kBFloat16)));
  const auto both = norm_weight_gradients(x, of, mean, rstd);
  CHECK(at::allclose(both.weight, (x * (of - mean) * rstd).sum(0), 1e-13, 1e-13));
  CHECK(at::allclose(both.bias, x.sum(0), 1e-13, 1e-13));
  const auto alone = norm_weight_gradients(x, of, {}, rstd);
  CHECK(at::allclose(alone.weight, (x * of * rstd).sum(0), 1e-13, 1e-13));
  CHECK_FALSE(alone.bias.defined());
}

TEST_CASE("linear is ATen's, bit for bit, forward and backward") {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const Inputs in{numbers({2, 3, 8}, 0.1).to(type), numbers({5, 8}, 0.5).to(type), numbers({5}, 0.7).to(type)};
    check_equal(all_of([](const Inputs& x) { return capstan::ops::linear(x[0], x[1], x[2]); }, in),
                all_of([](const Inputs& x) { return at::linear(x[0], x[1], x[2]); }, in));
    check_equal(all_of([](const Inputs& x) { return capstan::ops::linear(x[0], x[1], {}); }, {in[0], in[1]}),
                all_of([](const Inputs& x) { return at::linear(x[0], x[1]); }, {in[0], in[1]}));
  }
}

TEST_CASE("linear's result may be written to, and frozen weights get no gradient") {
  const auto x = numbers({2, 3, 8}, 0.1).set_requires_grad(true), weight = numbers({5, 8}, 0.5);
  const auto y = capstan::ops::linear(x, weight, {}).mul_(2);
  CHECK(at::allclose(torch::autograd::grad({y.sum()}, {x})[0], (weight.sum(0) * 2).expand({2, 3, 8}), 1e-14));
}

TEST_CASE("heads of a fused projection turn in its memory, as rotary turns them") {
  const auto fused = numbers({2, 4, 6, 6}, 0.1);
  const auto plain = [](const Inputs& x) {
    const auto turned = rotary(x[0].narrow(2, 0, 5), positions, frequencies);
    return at::cat({turned, x[0].narrow(2, 5, 1)}, 2);
  };
  const auto own = [](const Inputs& x) {
    const auto parts = rotary_heads_(x[0] * 1, 3, 2, positions, frequencies);
    return at::cat({parts.q, parts.k, parts.v}, 2);
  };
  check_equal(all_of(own, {fused}), all_of(plain, {fused}));
  CHECK(jacobian_error(own, {fused}) < 1e-8);
  const auto memory = fused.clone();
  const auto parts = rotary_heads_(memory, 3, 2, positions, frequencies);
  CHECK(parts.q.data_ptr() == memory.data_ptr());
  CHECK(at::equal(memory.narrow(2, 3, 2), parts.k));
  CHECK(at::equal(parts.v, fused.narrow(2, 5, 1)));
}

TEST_CASE("ALiBi's heads: the numbers, ones, and a bias in three parts; gradients of only the numbers") {
  const auto slopes = at::tensor({0.5, 0.25}, at::kDouble);
  const auto function = [&](const Inputs& x) {
    const auto heads = alibi_heads(x[0].flatten(2), slopes, positions, 0.4);
    return at::cat({heads.q, heads.k, heads.v}, -1).transpose(1, 2);
  };
  const auto fused = numbers({2, 4, 2, 3, 6}, 0.1);
  const auto out = function({fused});
  REQUIRE(out.size(-1) == 16 + 16 + 6);
  CHECK(at::equal(out.narrow(-1, 0, 6), fused.select(3, 0)));
  CHECK(at::equal(out.narrow(-1, 6, 3), at::ones({2, 4, 2, 3}, at::kDouble)));
  CHECK(out.narrow(-1, 9, 7).abs().max().item<double>() == 0);
  CHECK(at::equal(out.narrow(-1, 16, 6), fused.select(3, 1)));
  const auto bias = (positions - 3).unsqueeze(-1) * slopes;
  CHECK(at::allclose(out.narrow(-1, 22, 3).sum(-1) * 0.4, bias, 1e-14, 1e-14));
  CHECK(out.narrow(-1, 25, 7).abs().max().item<double>() == 0);
  CHECK(at::equal(out.narrow(-1, 32, 6), fused.select(3, 2)));
  CHECK(jacobian_error(function, {fused}) < 1e-8);
}

TEST_CASE("rows combine to tokens by weights, and backward gives both their gradients") {
  const auto order = at::tensor({4, 0, 7, 2, 1, 6, 3, 5}, at::kLong);
  const auto place = at::empty_like(order).scatter_(0, order, at::arange(8, at::kLong));
  const Inputs in{numbers({8, 5}, 0.1), numbers({4, 2}, 0.5)};
  const auto own = [&](const Inputs& x) { return combine_rows(x[0], {place, order}, x[1]); };
  const auto plain = [&](const Inputs& x) {
    return (permute_rows(x[0], place, order).view({4, 2, 5}) * x[1].unsqueeze(-1)).sum(1);
  };
  const auto got = all_of(own, in), wanted = all_of(plain, in);
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(at::allclose(got[i], wanted[i], 1e-13, 1e-13));
  CHECK(jacobian_error(own, in) < 1e-8);
  CHECK(at::allclose(sum_copies(in[0], place, 2), plain({in[0], at::ones({4, 2}, at::kDouble)}), 1e-13, 1e-13));
}

TEST_CASE("block operators on the meta device have the shapes") {
  const auto options = at::TensorOptions(at::kBFloat16).device(at::kMeta);
  const auto where = at::empty({2, 4}, options.dtype(at::kLong));
  const auto fused = at::empty({2, 4, 6, 6}, options).set_requires_grad(true);
  const auto turned = rotary_heads_(fused * 1, 3, 2, where, frequencies);
  CHECK(torch::autograd::grad({turned.k}, {fused}, {at::empty_like(turned.k)})[0].sizes() == fused.sizes());
  const auto heads = alibi_heads(fused.flatten(2), at::empty({2}, options.dtype(at::kFloat)), where, 1);
  CHECK(heads.k.sizes() == at::IntArrayRef({2, 2, 4, 16}));
  const auto index = at::empty({8}, options.dtype(at::kLong));
  const auto weights = at::empty({4, 2}, options).set_requires_grad(true);
  const auto out = combine_rows(at::empty({8, 5}, options), {index, index}, weights);
  CHECK(out.sizes() == at::IntArrayRef({4, 5}));
  CHECK(torch::autograd::grad({out}, {weights}, {at::empty_like(out)})[0].sizes() == weights.sizes());
}
