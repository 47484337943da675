#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>
#include <capstan/base/philox.h>
#include <capstan/ops/random.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <functional>

#include "ops/jacobian.h"

namespace dropout_test {

using namespace capstan::ops;
using capstan::testing::jacobian_error;

namespace {

DropoutKey key_for(std::vector<std::int64_t> samples, std::int64_t step = 3, std::uint64_t site = 11) {
  DropoutKey key;
  key.seed = 5;
  key.site = site;
  key.step = step;
  key.sample_ids = at::tensor(samples, at::kLong);
  return key;
}

at::Tensor mask(const std::vector<std::int64_t>& shape, double p, const DropoutKey& key) {
  return dropout(at::ones(shape, at::kDouble), p, key) != 0;
}

/// A segment that is recomputed in backward, re-entrantly, as activation recompute does it.
class Recompute : public torch::autograd::Function<Recompute> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const DropoutKey& key) {
    ctx->save_for_backward({x});
    ctx->saved_data["samples"] = key.sample_ids;
    return dropout(x.sin(), 0.4, key).square();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& gradients) {
    const at::AutoGradMode grad(true);
    DropoutKey key = key_for({});
    key.sample_ids = ctx->saved_data["samples"].toTensor();
    const at::Tensor x = ctx->get_saved_variables()[0].detach().set_requires_grad(true);
    torch::autograd::backward({dropout(x.sin(), 0.4, key).square()}, {gradients[0]});
    return {x.grad(), {}};
  }
};

}  // namespace

TEST_CASE("kept elements are scaled, dropped ones are zero, in every dtype") {
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    const at::Tensor x = at::arange(1, 2 * 5 * 7 + 1, at::TensorOptions(type)).view({2, 5, 7});
    const at::Tensor kept = mask({2, 5, 7}, 0.3, key_for({4, 9}));
    const at::ScalarType product = type == at::kDouble ? at::kDouble : at::kFloat;
    const at::Tensor expected = at::where(kept, x.to(product) * (1 / 0.7), 0).to(type);
    CHECK(at::equal(dropout(x, 0.3, key_for({4, 9})), expected));
    CHECK((kept.sum().item<int>() > 30 && kept.sum().item<int>() < 65));
  }
}

TEST_CASE("a dropped infinity is zero") {
  const at::Tensor x = at::full({1, 1000}, INFINITY, at::kFloat);
  const at::Tensor y = dropout(x, 0.5, key_for({1}));
  CHECK_FALSE(y.isnan().any().item<bool>());
  CHECK(y.isinf().sum().item<int>() < 600);
}

TEST_CASE("the mask is the documented function of its key") {
  const at::Tensor kept = mask({2, 37}, 0.25, key_for({3, (std::int64_t{1} << 40) + 2}, 6));
  const capstan::PhiloxKey key = capstan::make_key(5, capstan::RandomPurpose::dropout, 11);
  for (std::uint32_t i = 0; i < 37; ++i) {
    CHECK(kept[0][i].item<bool>() == (capstan::philox({{i / 4, 6, 3, 0}}, key).word[i % 4] >= (1u << 30)));
    CHECK(kept[1][i].item<bool>() == (capstan::philox({{i / 4, 6, 2, 256}}, key).word[i % 4] >= (1u << 30)));
  }
}

TEST_CASE("a row's mask follows its sample wherever the sample is") {
  const at::Tensor together = mask({3, 8, 5}, 0.5, key_for({10, 11, 12}));
  CHECK(at::equal(mask({1, 8, 5}, 0.5, key_for({12}))[0], together[2]));
  CHECK(at::equal(mask({2, 8, 5}, 0.5, key_for({12, 10}))[1], together[0]));
  CHECK_FALSE(at::equal(together[0], together[1]));
}

TEST_CASE("seed, step and site each change the mask") {
  const at::Tensor base = mask({1, 200}, 0.5, key_for({1}));
  CHECK_FALSE(at::equal(base, mask({1, 200}, 0.5, key_for({1}, 4))));
  CHECK_FALSE(at::equal(base, mask({1, 200}, 0.5, key_for({1}, 3, 12))));
  DropoutKey other = key_for({1});
  other.seed = 6;
  CHECK_FALSE(at::equal(base, mask({1, 200}, 0.5, other)));
}

TEST_CASE("a step read from a tensor is the same step") {
  DropoutKey key = key_for({1, 2}, 0);
  key.device_step = at::full({}, 3, at::kLong);
  CHECK(at::equal(mask({2, 50}, 0.5, key), mask({2, 50}, 0.5, key_for({1, 2}, 3))));
}

TEST_CASE("a shard of a row equals that slice of the whole mask") {
  const std::vector<std::int64_t> samples{7, 8};
  const at::Tensor whole = mask({2, 4, 6, 10}, 0.5, key_for(samples));  // attention probabilities
  for (const auto& [box, offset] : std::vector<std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>>{
           {{2, 6, 10}, {2, 0, 0}}, {{4, 3, 10}, {0, 3, 0}}, {{4, 6, 4}, {0, 0, 4}}, {{1, 5, 7}, {3, 1, 2}}}) {
    DropoutKey key = key_for(samples);
    key.row_shape = {4, 6, 10};
    key.row_offset = offset;
    at::Tensor expected = whole;
    for (std::int64_t dim = 0; dim < 3; ++dim) {
      const auto at_dim = static_cast<std::size_t>(dim);
      expected = expected.narrow(dim + 1, offset[at_dim], box[at_dim]);
    }
    CHECK(at::equal(mask({2, box[0], box[1], box[2]}, 0.5, key), expected));
  }
}

TEST_CASE("a strided input has the mask of its logical shape") {
  const at::Tensor x = at::arange(1, 2 * 3 * 8 + 1, at::kDouble).view({2, 8, 3}).transpose(1, 2);
  CHECK(at::equal(dropout(x, 0.5, key_for({1, 2})), dropout(x.contiguous(), 0.5, key_for({1, 2}))));
}

// Six standard errors each, as a right mask exceeds them once in 10^9; the seed is fixed.
TEST_CASE("elements are dropped with probability p, independently") {
  const std::int64_t n = 1 << 20;
  for (const double p : {0.01, 0.1, 0.5, 0.9}) {
    const at::Tensor kept = mask({1, n}, p, key_for({1})).view({-1}).to(at::kDouble) - (1 - p);
    const double deviation = std::sqrt(p * (1 - p));
    CHECK(std::abs(kept.mean().item<double>()) < 6 * deviation / std::sqrt(n));
    for (const std::int64_t lag : {1, 2, 4, 1024}) {
      const double correlation = (kept.slice(0, lag) * kept.slice(0, 0, n - lag)).mean().item<double>();
      CHECK(std::abs(correlation) < 6 * deviation * deviation / std::sqrt(n));
    }
  }
}

TEST_CASE("the backward is the Jacobian, once and twice") {
  const at::Tensor x = at::arange(0, 24, at::kDouble).mul(0.3).cos().view({2, 3, 4});
  const DropoutKey key = key_for({1, 2});
  CHECK(jacobian_error([&](const auto& in) { return dropout(in[0].square(), 0.4, key); }, {x}) < 1e-8);
  const auto gradient = [&](const std::vector<at::Tensor>& in) {
    const at::AutoGradMode grad(true);
    const at::Tensor y = in[0].requires_grad() ? in[0] : in[0].detach().set_requires_grad(true);
    return torch::autograd::grad({dropout(y.pow(3), 0.4, key).sum()}, {y}, {}, true, true)[0];
  };
  CHECK(jacobian_error(gradient, {x}) < 1e-8);
}

TEST_CASE("re-entrant recompute draws the same mask") {
  const DropoutKey key = key_for({1, 2});
  at::Tensor plain = at::arange(1, 41, at::kDouble).view({2, 20}).set_requires_grad(true);
  at::Tensor recomputed = plain.detach().clone().set_requires_grad(true);
  dropout(plain.sin(), 0.4, key).square().sum().backward();
  Recompute::apply(recomputed, key).sum().backward();
  CHECK(at::equal(plain.grad(), recomputed.grad()));
}

TEST_CASE("nothing but the key is kept for backward") {
  at::Tensor x = at::ones({2, 30}, at::kDouble).set_requires_grad(true);
  const at::Tensor square = x * x;
  const auto held = square.storage().use_count();
  const at::Tensor y = dropout(square, 0.5, key_for({1, 2}));
  CHECK(square.storage().use_count() == held);
  CHECK(y.storage().use_count() == 1);
}

TEST_CASE("the number of threads does not change a mask") {
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor one = mask({7, 3001}, 0.5, key_for({1, 2, 3, 4, 5, 6, 7}));
  at::set_num_threads(2);
  CHECK(at::equal(one, mask({7, 3001}, 0.5, key_for({1, 2, 3, 4, 5, 6, 7}))));
  at::set_num_threads(before);
}

TEST_CASE("p of 0 is x itself; an empty batch is one; p out of range is refused") {
  const at::Tensor x = at::ones({1, 4});
  CHECK(dropout(x, 0, key_for({1})).is_same(x));
  CHECK(dropout(at::ones({0, 4}), 0.5, key_for({})).sizes() == at::IntArrayRef({0, 4}));
  for (const double p : {-0.1, 1.0, 1.5}) {
    CHECK_THROWS_WITH(dropout(x, p, key_for({1})),
                      Contains("a dropout probability of") && Contains("give one from 0 to below 1"));
  }
  CHECK_THROWS_WITH(dropout(x, 1.5, key_for({1})), Contains("a dropout probability of 1.5 is out of range"));
}

TEST_CASE("the meta device has the shapes") {
  DropoutKey key = key_for({});
  key.sample_ids = at::empty({2}, at::TensorOptions(at::kLong).device(at::kMeta));
  const at::Tensor y = dropout(at::empty({2, 3, 4}, at::TensorOptions(at::kBFloat16).device(at::kMeta)), 0.5, key);
  CHECK(y.is_meta());
  CHECK(y.sizes() == at::IntArrayRef({2, 3, 4}));
}

TEST_CASE("dropout of nothing is nothing") {
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{0, 5}, {2, 0}, {0, 0, 3}}) {
    DropoutKey key = key_for({});
    key.sample_ids = at::zeros({shape[0]}, at::kLong);
    CHECK(dropout(at::ones(shape, at::kDouble), 0.5, key).sizes() == at::IntArrayRef(shape));
  }
}

}  // namespace dropout_test
