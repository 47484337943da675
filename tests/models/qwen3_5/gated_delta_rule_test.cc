// The gated delta rule: chunks beside the definition token by token, its gradient, and rows that hold several
// sequences.
#include <ATen/ATen.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "models/qwen3_5/gated_delta_rule.h"
#include "ops/jacobian.h"

namespace gated_delta_rule_test {

using namespace qwen3_5;
using capstan::testing::jacobian_error;

namespace {

at::Tensor numbers(const std::vector<std::int64_t>& shape, double phase) {
  return at::arange(1, c10::multiply_integers(shape) + 1, at::kDouble).mul(0.7).add(phase).sin().view(shape);
}

// Two value heads for each key head, decays from 0.03 to 0.97.
DeltaInput input(std::int64_t rows, std::int64_t length, std::int64_t key_heads = 2) {
  const auto values = 2 * key_heads;
  return {numbers({rows, length, key_heads, 3}, 0.1), numbers({rows, length, key_heads, 3}, 0.2),
          numbers({rows, length, values, 4}, 0.3), numbers({rows, length, values}, 0.4).sub(1.02).mul(1.7),
          numbers({rows, length, values}, 0.5).mul(2).sigmoid()};
}

DeltaInput of(const std::vector<at::Tensor>& x, const at::Tensor& begins = {}) {
  return {x[0], x[1], x[2], x[3], x[4], begins};
}

std::vector<at::Tensor> listed(const DeltaInput& in) { return {in.q, in.k, in.v, in.decay, in.beta}; }

DeltaInput part(const DeltaInput& in, std::int64_t begin, std::int64_t length) {
  std::vector<at::Tensor> parts;
  for (const auto& x : listed(in)) parts.push_back(x.narrow(1, begin, length));
  return of(parts);
}

double apart(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

// Sums in float64 of numbers of order 1, in another order; the inverse of a chunk's matrix is well conditioned.
constexpr double rounding = 1e-13;

at::Tensor marks(const std::vector<std::int64_t>& begins, std::int64_t length) {
  auto out = at::zeros({1, length}, at::kBool);
  for (const auto at : begins) out[0][at].fill_(true);
  return out;
}

}  // namespace

TEST_CASE("one token of the gated delta rule is what its definition says") {
  const auto in = input(1, 1, 1);
  const auto first = numbers({1, 2, 3, 4}, 0.6);
  const auto made = recurrent_gated_delta_rule(in, first);
  const auto unit = [](const at::Tensor& x) { return x / std::sqrt(x.square().sum().item<double>() + 1e-6); };
  const auto k = unit(in.k[0][0][0]), q = unit(in.q[0][0][0]) / std::sqrt(3.0);
  for (std::int64_t head = 0; head < 2; ++head) {
    const auto kept = first[0][head] * in.decay[0][0][head].exp();
    const auto written = (in.v[0][0][head] - at::mv(kept.t(), k)) * in.beta[0][0][head];
    const auto state = kept + at::outer(k, written);
    CHECK(apart(made.state[0][head], state) < rounding);
    CHECK(apart(made.out[0][0][head], at::mv(state.t(), q)) < rounding);
  }
}

TEST_CASE("chunks of the gated delta rule are the definition, however rows are cut") {
  for (const std::int64_t length : {1, 3, 4, 13, 24}) {
    const auto in = input(2, length);
    const auto expected = recurrent_gated_delta_rule(in);
    for (const DeltaCut cut : {DeltaCut{}, DeltaCut{4, 4}, DeltaCut{4, 12}, DeltaCut{3, 6}, DeltaCut{1, 5}}) {
      INFO(length << " tokens, chunks of " << cut.chunk << ", segments of " << cut.segment);
      const auto made = gated_delta_rule(in, cut);
      CHECK(apart(made.out, expected.out) < rounding);
      CHECK(apart(made.state, expected.state) < rounding);
    }
  }
}

TEST_CASE("the gated delta rule continues from its state") {
  const auto in = input(2, 13);
  const auto all = recurrent_gated_delta_rule(in);
  const auto first = gated_delta_rule(part(in, 0, 9), {4, 8});
  const auto rest = recurrent_gated_delta_rule(part(in, 9, 4), first.state);
  CHECK(apart(rest.out, all.out.narrow(1, 9, 4)) < rounding);
  CHECK(apart(rest.state, all.state) < rounding);
}

TEST_CASE("the gated delta rule's backward is the Jacobian, over chunks and segments") {
  for (const DeltaCut cut : {DeltaCut{}, DeltaCut{3, 6}, DeltaCut{2, 2}}) {
    const auto function = [&](const std::vector<at::Tensor>& x) { return gated_delta_rule(of(x), cut).out; };
    CHECK(jacobian_error(function, listed(input(2, 8, 1))) < 1e-7);
    CHECK(jacobian_error(function, listed(input(1, 7, 2))) < 1e-7);
  }
}

TEST_CASE("the gated delta rule's backward with several sequences in a row is the Jacobian") {
  const auto begins = marks({0, 2, 3, 6}, 8);
  for (const DeltaCut cut : {DeltaCut{}, DeltaCut{3, 6}}) {
    const auto function = [&](const std::vector<at::Tensor>& x) { return gated_delta_rule(of(x, begins), cut).out; };
    CHECK(jacobian_error(function, listed(input(1, 8, 1))) < 1e-7);
  }
}

TEST_CASE("sequences in one row are what each is by itself, and so are their gradients") {
  const std::vector<std::int64_t> begins{0, 5, 6, 13};
  const std::int64_t length = 21;
  for (const DeltaCut cut : {DeltaCut{}, DeltaCut{4, 8}, DeltaCut{2, 6}}) {
    std::vector<at::Tensor> packed;
    for (const auto& x : listed(input(1, length))) packed.push_back(x.clone().set_requires_grad(true));
    const auto in = of(packed, marks(begins, length));
    const auto together = gated_delta_rule(in, cut).out;
    const auto token_by_token = recurrent_gated_delta_rule(in).out;
    std::vector<at::Tensor> alone;
    for (std::size_t i = 0; i < begins.size(); ++i) {
      const auto end = i + 1 < begins.size() ? begins[i + 1] : length;
      alone.push_back(gated_delta_rule(part(in, begins[i], end - begins[i]), cut).out);
    }
    const auto expected = at::cat(alone, 1), weights = numbers({1, length, 4, 4}, 0.9);
    CHECK(apart(together, expected) < rounding);
    CHECK(apart(token_by_token, expected) < rounding);
    const auto mine = torch::autograd::grad({(together * weights).sum()}, packed);
    const auto theirs = torch::autograd::grad({(expected * weights).sum()}, packed);
    for (std::size_t i = 0; i < mine.size(); ++i) CHECK(apart(mine[i], theirs[i]) < rounding);
    CHECK(apart(together, gated_delta_rule(of(packed), cut).out) > 0.01);  // where nothing begins the state continues
  }
}

TEST_CASE("the gated delta rule of 16-bit numbers is float32's, rounded once, forward and backward") {
  const auto in = input(2, 9);
  std::vector<at::Tensor> narrow, wide;
  for (const auto& x : listed(in)) {
    const auto rounded = x.to(&x == &in.decay ? at::kFloat : at::kBFloat16);
    narrow.push_back(rounded.clone().set_requires_grad(true));
    wide.push_back(rounded.to(at::kFloat).set_requires_grad(true));
  }
  const auto mine = gated_delta_rule(of(narrow), {4, 8}), theirs = gated_delta_rule(of(wide), {4, 8});
  CHECK(mine.state.scalar_type() == at::kFloat);
  CHECK(at::equal(mine.out, theirs.out.to(at::kBFloat16)));
  const auto gradient = numbers({2, 9, 4, 4}, 0.8).to(at::kBFloat16);
  const auto got = torch::autograd::grad({mine.out}, narrow, {gradient});
  const auto wanted = torch::autograd::grad({theirs.out}, wide, {gradient.to(at::kFloat)});
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(at::equal(got[i], wanted[i].to(got[i].scalar_type())));
}

TEST_CASE("decays that forget everything leave finite numbers") {
  auto in = input(1, 9);
  in.decay = at::full_like(in.decay, -200);
  for (auto* x : {&in.q, &in.k, &in.v, &in.decay, &in.beta}) *x = x->to(at::kFloat).set_requires_grad(true);
  const auto made = gated_delta_rule(in, {4, 8});
  for (const auto& gradient : torch::autograd::grad({made.out.sum()}, listed(in)))
    CHECK(gradient.isfinite().all().item<bool>());
}

TEST_CASE("the gated delta rule on the meta device has the shapes") {
  std::vector<at::Tensor> meta;
  for (const auto& x : listed(input(2, 9))) meta.push_back(at::empty_like(x, at::kMeta).set_requires_grad(true));
  const auto made = gated_delta_rule(of(meta), {4, 8});
  CHECK(made.out.sizes() == at::IntArrayRef({2, 9, 4, 4}));
  CHECK(made.state.sizes() == at::IntArrayRef({2, 4, 3, 4}));
  const auto gradients = torch::autograd::grad({made.out}, meta, {at::empty_like(made.out)});
  for (std::size_t i = 0; i < meta.size(); ++i) CHECK(gradients[i].sizes() == meta[i].sizes());
}

}  // namespace gated_delta_rule_test
