#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/ops/label_log_probabilities.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "ops/jacobian.h"
#include "ops/split_vocabulary.h"

namespace label_log_probabilities_test {

using namespace capstan;
using capstan::testing::jacobian_error;
using capstan::testing::on_split_vocabulary;
using ops::chunked_label_log_probabilities;

namespace {

constexpr std::int64_t words = 11;

at::Tensor doubles(std::int64_t rows, double step) {
  return at::arange(1, rows * 5 + 1, at::kDouble).mul(step).sin().mul(2).view({rows, 5});
}

struct Inputs {
  at::Tensor hidden = doubles(13, 1.7), weight = doubles(words, 0.9);
  // Every part of the vocabulary, its edges, and rows without a label.
  at::Tensor labels = at::tensor({3, -100, 10, 0, 5, -100, -100, -100, 1, 2, 9, -100, 7}, at::kLong);
  at::Tensor factors = at::arange(13, at::kDouble).mul(0.8).cos();  ///< the gradient of each row's result

  Inputs leaves(at::ScalarType type = at::kDouble, bool trains_weight = true) const {
    Inputs other = *this;
    other.hidden = hidden.to(type).detach().clone().set_requires_grad(true);
    other.weight = weight.to(type).detach().clone().set_requires_grad(trains_weight);
    return other;
  }
};

/// By ATen's own functions, with all logits.
at::Tensor plain(const Inputs& in, std::optional<double> cap = {}) {
  const auto logits = in.hidden.to(at::kDouble).mm(in.weight.to(at::kDouble).t());
  const auto all = at::log_softmax(cap ? (logits / *cap).tanh() * *cap : logits, 1);
  const auto picked = all.gather(1, in.labels.clamp_min(0).unsqueeze(1)).squeeze(1);
  return picked.masked_fill(in.labels.eq(ops::ignored_label), 0);
}

/// The results, then the gradients of those inputs that are trained.
std::vector<at::Tensor> learnt(const Inputs& in, const at::Tensor& result) {
  std::vector<at::Tensor> trained{in.hidden};
  if (in.weight.requires_grad()) trained.push_back(in.weight);
  auto all = torch::autograd::grad({(result.to(at::kDouble) * in.factors).sum()}, trained);
  all.insert(all.begin(), result.detach());
  return all;
}

double apart(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  CHECK(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto difference = (a[i].to(at::kDouble) - b[i].to(at::kDouble)).abs().max() / b[i].abs().max();
    most = std::max(most, difference.item<double>());
  }
  return most;
}

std::vector<at::Tensor> split(const Inputs& in, int ranks, std::optional<double> cap = {}) {
  return on_split_vocabulary(in.hidden, in.weight, ranks, [&](const ops::VocabularyPart& part, const auto& piece) {
    auto mine = in;
    mine.weight = in.weight.narrow(0, piece.begin, piece.length);
    mine = mine.leaves();
    return learnt(mine, ops::split_label_log_probabilities(mine.hidden, mine.weight, mine.labels, 4, part, cap));
  });
}

}  // namespace

TEST_CASE("log-probabilities of labels equal the plain ones at any chunk size, whatever is trained") {
  const bool trains_weight = GENERATE(true, false);
  const auto expected = Inputs().leaves(at::kDouble, trains_weight);
  const auto reference = learnt(expected, plain(expected));
  for (const std::int64_t chunk : {1, 2, 5, 13, 100}) {
    const auto in = Inputs().leaves(at::kDouble, trains_weight);
    CHECK(apart(learnt(in, chunked_label_log_probabilities(in.hidden, in.weight, in.labels, chunk)), reference) <
          1e-14);
  }
}

TEST_CASE("the backward of the labels' log-probabilities is the Jacobian") {
  const Inputs in;
  const auto both = [&](const std::vector<at::Tensor>& x) {
    return chunked_label_log_probabilities(x[0], x[1], in.labels, 4);
  };
  CHECK(jacobian_error(both, {in.hidden, in.weight}) < 1e-8);
  const auto of_hidden = [&](const std::vector<at::Tensor>& x) {
    return chunked_label_log_probabilities(x[0], in.weight, in.labels, 4);
  };
  CHECK(jacobian_error(of_hidden, {in.hidden}) < 1e-8);
  const auto of_weight = [&](const std::vector<at::Tensor>& x) {
    return chunked_label_log_probabilities(in.hidden, x[0], in.labels, 4);
  };
  CHECK(jacobian_error(of_weight, {in.weight}) < 1e-8);
}

TEST_CASE("log-probabilities of logits with a cap have its slope in their gradients, whatever is trained") {
  constexpr double cap = 1.5;  // logits are up to 17
  const bool trains_weight = GENERATE(true, false);
  const auto in = Inputs().leaves(at::kDouble, trains_weight);
  const auto found = chunked_label_log_probabilities(in.hidden, in.weight, in.labels, 4, cap);
  CHECK(apart(learnt(in, found), learnt(in, plain(in, cap))) < 1e-13);
  const auto both = [&](const std::vector<at::Tensor>& x) {
    return chunked_label_log_probabilities(x[0], x[1], in.labels, 4, cap);
  };
  CHECK(jacobian_error(both, {Inputs().hidden, Inputs().weight}) < 1e-8);
}

TEST_CASE("log-probabilities and their gradients do not depend on how the vocabulary is split") {
  const int ranks = GENERATE(1, 2, 3, 4);
  INFO(ranks << " ranks");
  const auto whole = Inputs().leaves();
  CHECK(apart(split(Inputs(), ranks), learnt(whole, plain(whole))) < 1e-13);
  CHECK(apart(split(Inputs(), ranks, 1.5), learnt(whole, plain(whole, 1.5))) < 1e-13);
}

// The gradients of rows are rounded to 16 bits twice, and the results once: two and a half units of 2^-8 and 2^-11.
TEST_CASE("log-probabilities in narrower dtypes are good to their rounding, however small the gradients are") {
  const double bound[] = {1e-6, 2.5 / 256, 2.5 / 2048};
  const at::ScalarType types[] = {at::kFloat, at::kBFloat16, at::kHalf};
  const double size = GENERATE(1.0, 1e-3);
  const bool trains_weight = GENERATE(true, false);
  for (int i = 0; i < 3; ++i) {
    INFO(types[i] << ", " << size);
    auto in = Inputs().leaves(types[i], trains_weight);
    in.factors = in.factors * size;
    auto exact = in.leaves(at::kDouble, trains_weight);
    const auto result = chunked_label_log_probabilities(in.hidden, in.weight, in.labels, 4);
    CHECK(result.scalar_type() == at::kFloat);
    const auto found = learnt(in, result), expected = learnt(exact, plain(exact));
    CHECK(apart({found[0]}, {expected[0]}) < 1e-6);
    for (std::size_t k = 1; k < found.size(); ++k) {
      CHECK(found[k].scalar_type() == types[i]);
      CHECK(apart({found[k]}, {expected[k]}) < bound[i]);
    }
  }
}

TEST_CASE("rows without a label have log-probability 0 and no gradient, and all rows may be such") {
  auto in = Inputs().leaves();
  const auto some = learnt(in, chunked_label_log_probabilities(in.hidden, in.weight, in.labels, 3));
  const auto none = in.labels.eq(ops::ignored_label);
  CHECK(some[0].index({none}).abs().max().item<double>() == 0);
  CHECK(some[1].index({none}).abs().max().item<double>() == 0);
  in.labels.fill_(ops::ignored_label);
  for (const auto& x : learnt(in, chunked_label_log_probabilities(in.hidden, in.weight, in.labels, 3))) {
    CHECK(x.abs().max().item<double>() == 0);
  }
}

TEST_CASE("log-probabilities without gradients, and gradients that are taken twice") {
  const auto in = Inputs().leaves();
  const auto result = chunked_label_log_probabilities(in.hidden, in.weight, in.labels, 4);
  const auto first = torch::autograd::grad({result.sum()}, {in.weight}, {}, true)[0];
  CHECK(at::equal(torch::autograd::grad({result.sum() * 2}, {in.weight})[0], first * 2));
  const at::NoGradGuard no_grad;
  const auto alone = chunked_label_log_probabilities(in.hidden, in.weight, in.labels, 4);
  CHECK_FALSE(alone.requires_grad());
  CHECK(at::equal(alone, result));
}

TEST_CASE("log-probabilities on the meta device have the shapes") {
  const auto meta = at::TensorOptions(at::kBFloat16).device(at::kMeta);
  const auto hidden = at::empty({6, 4}, meta).set_requires_grad(true);
  const bool trains_weight = GENERATE(true, false);
  const auto weight = at::empty({9, 4}, meta).set_requires_grad(trains_weight);
  const auto result = chunked_label_log_probabilities(hidden, weight, at::empty({6}, meta.dtype(at::kLong)), 4);
  CHECK(result.scalar_type() == at::kFloat);
  CHECK(result.sizes() == at::IntArrayRef({6}));
  std::vector<at::Tensor> trained{hidden};
  if (trains_weight) trained.push_back(weight);
  const auto gradients = torch::autograd::grad({result.sum()}, trained);
  for (std::size_t i = 0; i < trained.size(); ++i) CHECK(gradients[i].sizes() == trained[i].sizes());
}

}  // namespace label_log_probabilities_test
