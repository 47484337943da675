// Attention against a plain float64 reference: loops over rows, heads, queries and keys.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/nn/attention.h>
#include <capstan_catch.h>

#include <algorithm>
#include <cmath>

#include "ops/jacobian.h"

namespace attention_test {

using namespace capstan;
using capstan::testing::jacobian_error;

namespace {

// Both sides are float64 and add at most some dozens of numbers of order 1.
constexpr double tolerance = 1e-13;

at::Tensor numbers(const std::vector<std::int64_t>& shape, double phase) {
  return (at::arange(layout::numel(shape), at::kDouble) * 1.7 + phase).sin().mul(2).view(shape);
}

/// q [B, heads, S, dim]; k and v may have fewer heads, each for a run of q's.
struct Inputs {
  at::Tensor q;
  at::Tensor k;
  at::Tensor v;
};

Inputs inputs(std::int64_t rows, std::int64_t heads, std::int64_t groups, std::int64_t length, std::int64_t dim = 4) {
  return {numbers({rows, heads, length, dim}, 0.1), numbers({rows, groups, length, dim}, 0.5),
          numbers({rows, groups, length, dim}, 0.9)};
}

/// softmax over the keys up to the query's position: [B, heads, S, S], zero after.
at::Tensor reference_probabilities(const Inputs& in) {
  const auto rows = in.q.size(0), heads = in.q.size(1), length = in.q.size(2), dim = in.q.size(3);
  const auto share = heads / in.k.size(1);
  auto out = at::zeros({rows, heads, length, length}, at::kDouble);
  const auto q = in.q.accessor<double, 4>();
  const auto k = in.k.accessor<double, 4>();
  auto p = out.accessor<double, 4>();
  for (std::int64_t b = 0; b < rows; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t s = 0; s < length; ++s) {
        double sum = 0;
        for (std::int64_t t = 0; t <= s; ++t) {
          double score = 0;
          for (std::int64_t d = 0; d < dim; ++d) score += q[b][h][s][d] * k[b][h / share][t][d];
          sum += p[b][h][s][t] = std::exp(score / std::sqrt(static_cast<double>(dim)));
        }
        for (std::int64_t t = 0; t <= s; ++t) p[b][h][s][t] /= sum;
      }
    }
  }
  return out;
}

at::Tensor weigh(const at::Tensor& probabilities, const at::Tensor& v) {
  const auto rows = probabilities.size(0), heads = probabilities.size(1), length = probabilities.size(2),
             dim = v.size(3);
  const auto share = heads / v.size(1);
  auto out = at::zeros({rows, heads, length, dim}, at::kDouble);
  const auto p = probabilities.accessor<double, 4>();
  const auto values = v.accessor<double, 4>();
  auto y = out.accessor<double, 4>();
  for (std::int64_t b = 0; b < rows; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t s = 0; s < length; ++s) {
        for (std::int64_t t = 0; t < length; ++t) {
          for (std::int64_t d = 0; d < dim; ++d) y[b][h][s][d] += p[b][h][s][t] * values[b][h / share][t][d];
        }
      }
    }
  }
  return out;
}

at::Tensor reference(const Inputs& in) { return weigh(reference_probabilities(in), in.v); }

double difference(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

nn::Batch batch_of(const std::vector<std::int64_t>& samples, std::int64_t step = 3, bool training = true) {
  nn::Batch batch;
  batch.sample_ids = at::tensor(samples, at::kLong);
  batch.seed = 7;
  batch.step = step;
  batch.training = training;
  return batch;
}

at::Tensor attend(const Inputs& in, const nn::Dropout& dropout, const nn::Batch& batch) {
  return nn::causal_attention(in.q, in.k, in.v, dropout, batch, nullptr, 0);
}

nn::Layer root("root");
const nn::Dropout no_dropout(root, "attention", 0);
const nn::Dropout some_dropout(root, "attention", 0.4);

}  // namespace

TEST_CASE("attention is the reference, with as many, half or one key head") {
  const std::int64_t groups = GENERATE(4, 2, 1);
  const std::int64_t length = GENERATE(1, 2, 9);
  const auto in = inputs(2, 4, groups, length);
  CHECK(difference(attend(in, no_dropout, batch_of({0, 1})), reference(in)) < tolerance);
  CHECK(difference(attend(in, some_dropout, batch_of({0, 1}, 3, false)), reference(in)) < tolerance);
}

TEST_CASE("dropout acts on the probabilities") {
  const std::int64_t groups = GENERATE(4, 2, 1);
  const auto in = inputs(2, 4, groups, 9);
  const auto batch = batch_of({3, 8});
  const auto dropped = some_dropout.on_attention(reference_probabilities(in), batch);
  REQUIRE(dropped.eq(0).sum().item<std::int64_t>() > 2 * 4 * 36);  // more than the 36 of each matrix that are masked
  CHECK(difference(attend(in, some_dropout, batch), weigh(dropped, in.v)) < tolerance);
}

TEST_CASE("dropout on the probabilities does not see how far rows are padded") {
  const auto in = inputs(2, 3, 3, 5);
  const auto padded = [](const at::Tensor& x) { return at::constant_pad_nd(x, {0, 0, 0, 4}); };
  const auto batch = batch_of({3, 8});
  const auto out = attend(in, some_dropout, batch);
  const auto longer = attend({padded(in.q), padded(in.k), padded(in.v)}, some_dropout, batch);
  CHECK(difference(longer.narrow(2, 0, 5), out) < tolerance);
  CHECK(difference(attend(in, no_dropout, batch), out) > 0.1);
}

TEST_CASE("dropout on the probabilities follows step, sample and seed, and not the place in the batch") {
  const auto in = inputs(2, 4, 2, 6);
  const auto out = attend(in, some_dropout, batch_of({3, 8}));
  CHECK(at::equal(attend(in, some_dropout, batch_of({3, 8})), out));
  CHECK(difference(attend(in, some_dropout, batch_of({3, 8}, 4)), out) > 0.1);
  CHECK(difference(attend(in, nn::Dropout(root, "elsewhere", 0.4), batch_of({3, 8})), out) > 0.1);
  auto other_seed = batch_of({3, 8});
  other_seed.seed = 8;
  CHECK(difference(attend(in, some_dropout, other_seed), out) > 0.1);
  // Another sample id for row 1 changes only row 1.
  const auto changed = attend(in, some_dropout, batch_of({3, 9}));
  CHECK(difference(changed[0], out[0]) < tolerance);
  CHECK(difference(changed[1], out[1]) > 0.1);
  // Rows and ids swapped: the same results, swapped.
  const Inputs swapped{in.q.flip(0), in.k.flip(0), in.v.flip(0)};
  CHECK(difference(attend(swapped, some_dropout, batch_of({8, 3})), out.flip(0)) < tolerance);
}

TEST_CASE("attention's gradients are the numeric ones") {
  const std::int64_t groups = GENERATE(2, 1);
  const auto in = inputs(2, 2, groups, 4, 3);
  const auto batch = batch_of({3, 8});
  const auto* dropout = GENERATE(&no_dropout, &some_dropout);
  const auto function = [&](const std::vector<at::Tensor>& x) {
    return nn::causal_attention(x[0], x[1], x[2], *dropout, batch, nullptr, 0);
  };
  // Central differences are good to about 1e-9 (ops/jacobian.h).
  CHECK(jacobian_error(function, {in.q, in.k, in.v}) < 1e-8);
}

TEST_CASE("the cache: prompts of different lengths, then a token at a time, equal the full sequence everywhere") {
  const std::int64_t groups = GENERATE(4, 2);
  const std::int64_t length = 9;
  const auto in = inputs(3, 4, groups, length);
  const auto expected = reference(in);
  const std::vector<std::int64_t> prompt{2, 5, 4};
  const std::int64_t longest = 5;
  const std::size_t layer = 1;  // another layer's entry stays empty
  nn::KVCache cache(length);
  auto batch = batch_of({0, 0, 0}, 0, false);
  const auto garbage = at::full({}, 1e3, at::kDouble);  // what padding computes
  auto k = in.k.narrow(2, 0, longest).clone();
  auto v = in.v.narrow(2, 0, longest).clone();
  for (std::int64_t b = 0; b < 3; ++b) {
    k[b].slice(1, prompt[static_cast<std::size_t>(b)]) = garbage;
    v[b].slice(1, prompt[static_cast<std::size_t>(b)]) = garbage;
  }
  batch.positions = at::arange(longest, at::kLong).expand({3, longest});
  const auto first =
      nn::causal_attention(in.q.narrow(2, 0, longest).contiguous(), k, v, some_dropout, batch, &cache, layer);
  for (std::int64_t b = 0; b < 3; ++b) {
    const auto real = prompt[static_cast<std::size_t>(b)];
    CHECK(difference(first[b].narrow(1, 0, real), expected[b].narrow(1, 0, real)) < tolerance);
  }
  cache.set_filled();
  // Every row stands at its own position; a row that is full stays at the last one.
  for (std::int64_t n = 0; n < length - 2; ++n) {
    std::vector<std::int64_t> position;
    for (const auto real : prompt) position.push_back(std::min(real + n, length - 1));
    batch.positions = at::tensor(position, at::kLong).view({3, 1});
    const auto pick = [&](const at::Tensor& x) {
      std::vector<at::Tensor> rows;
      for (std::int64_t b = 0; b < 3; ++b) rows.push_back(x[b].narrow(1, position[static_cast<std::size_t>(b)], 1));
      return at::stack(rows);
    };
    const auto out = nn::causal_attention(pick(in.q), pick(in.k), pick(in.v), some_dropout, batch, &cache, layer);
    INFO("after " << n << " tokens");
    CHECK(difference(out, pick(expected)) < tolerance);
  }
}

TEST_CASE("the cache takes several tokens at once, each seeing those up to itself") {
  const auto in = inputs(2, 4, 2, 8);
  const auto expected = reference(in);
  nn::KVCache cache(12);
  auto batch = batch_of({0, 0}, 0, false);
  const auto feed = [&](std::int64_t begin, std::int64_t count) {
    batch.positions = (at::arange(count, at::kLong) + begin).expand({2, count});
    return nn::causal_attention(in.q.narrow(2, begin, count), in.k.narrow(2, begin, count),
                                in.v.narrow(2, begin, count), no_dropout, batch, &cache, 0);
  };
  CHECK(!cache.is_filled());
  CHECK(difference(feed(0, 3), expected.narrow(2, 0, 3)) < tolerance);
  cache.set_filled();
  CHECK(cache.is_filled());
  CHECK(difference(feed(3, 4), expected.narrow(2, 3, 4)) < tolerance);
  CHECK(difference(feed(7, 1), expected.narrow(2, 7, 1)) < tolerance);
}

namespace {

// softmax(q k' 0.7) v, where a position sees `window` ones.
at::Tensor plain_window(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, std::int64_t window) {
  const auto groups = q.size(1) / k.size(1);
  const auto keys = k.repeat_interleave(groups, 1), values = v.repeat_interleave(groups, 1);
  const auto ones = at::ones({q.size(2), q.size(2)}, at::kBool);
  const auto mask = ones.tril().logical_and(ones.triu(1 - window));
  const auto scores = (at::matmul(q, keys.transpose(-2, -1)) * 0.7).masked_fill(mask.logical_not(), -1e300);
  return at::matmul(at::softmax(scores, -1), values);
}

}  // namespace

// A window of half the row or less is computed a window's worth of queries at a time.
TEST_CASE("a window of attention hides what is further back, values and gradients, for any length") {
  nn::Batch batch;
  batch.positions = at::arange(7, at::kLong).unsqueeze(0).expand({2, 7});
  for (const std::int64_t window : {1, 2, 3, 4, 6, 7, 9}) {
    INFO("window " << window);
    const auto leaves = [] {
      return std::vector<at::Tensor>{numbers({2, 4, 7, 4}, 0.1).set_requires_grad(true),
                                     numbers({2, 2, 7, 4}, 0.5).set_requires_grad(true),
                                     numbers({2, 2, 7, 4}, 0.9).set_requires_grad(true)};
    };
    const auto mine = leaves(), plain = leaves();
    const auto got = nn::causal_attention(mine[0], mine[1], mine[2], no_dropout, batch, nullptr, 0, {0.7, window});
    const auto expected = plain_window(plain[0], plain[1], plain[2], window);
    CHECK(difference(got, expected) < 1e-13);
    const auto towards = numbers({2, 4, 7, 4}, 0.3);
    got.backward(towards);
    expected.backward(towards);
    for (std::size_t i = 0; i < 3; ++i) CHECK(difference(mine[i].grad(), plain[i].grad()) < 1e-13);
  }
}

TEST_CASE("a window of attention holds for tokens that come one by one") {
  const auto q = numbers({1, 2, 7, 4}, 0.1), k = numbers({1, 2, 7, 4}, 0.5), v = numbers({1, 2, 7, 4}, 0.9);
  nn::Batch batch;
  const nn::AttentionSpec scores{0.7, 3};
  const auto expected = plain_window(q, k, v, 3);
  nn::KVCache cache(7);
  const auto part = [](const at::Tensor& x, std::int64_t begin, std::int64_t count) {
    return x.narrow(2, begin, count);
  };
  batch.positions = at::arange(5, at::kLong).unsqueeze(0);
  nn::causal_attention(part(q, 0, 5), part(k, 0, 5), part(v, 0, 5), no_dropout, batch, &cache, 0, scores);
  cache.set_filled();
  for (std::int64_t t = 5; t < 7; ++t) {
    batch.positions = at::full({1, 1}, t, at::kLong);
    const auto one =
        nn::causal_attention(part(q, t, 1), part(k, t, 1), part(v, t, 1), no_dropout, batch, &cache, 0, scores);
    CHECK(difference(one, part(expected, t, 1)) < 1e-13);
  }
}

}  // namespace attention_test
