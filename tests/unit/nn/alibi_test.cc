// ALiBi against its formula, and the columns that carry it through a plain causal kernel.
#include <ATen/ATen.h>
#include <capstan/nn/attention.h>
#include <capstan/ops/bias_columns.h>
#include <capstan_catch.h>

#include <cmath>

#include "nn/weights.h"
#include "ops/jacobian.h"
#include "support/alibi.h"

namespace alibi_test {

using namespace capstan;
using capstan::testing::alibi_attention;
using capstan::testing::difference;
using capstan::testing::jacobian_error;
using capstan::testing::numbers;

namespace {

nn::Layer root("root");
const nn::Dropout no_dropout(root, "attention", 0);

nn::Batch batch_of(std::int64_t rows, std::int64_t length, bool training = false) {
  nn::Batch batch;
  batch.positions = at::arange(length, at::kLong).expand({rows, length});
  batch.sample_ids = at::arange(rows, at::kLong);
  batch.training = training;
  return batch;
}

/// Press et al., section 3 and appendix: 2^(-8 i / n) for a power of two n, else the closest power of two below and
/// every second slope of the one above.
std::vector<double> slopes(int heads) {
  int n = 1;
  while (2 * n <= heads) n *= 2;
  std::vector<double> out;
  for (int i = 1; i <= n; ++i) out.push_back(std::pow(2.0, -8.0 * i / n));
  for (int i = 1; static_cast<int>(out.size()) < heads; i += 2) out.push_back(std::pow(2.0, -8.0 * i / (2 * n)));
  return out;
}

/// softmax(q k^T / sqrt(dim) - slope · distance) v, row by row.
at::Tensor reference(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::vector<double>& slope) {
  auto out = at::zeros_like(q);
  for (std::int64_t b = 0; b < q.size(0); ++b) {
    for (std::int64_t h = 0; h < q.size(1); ++h) {
      for (std::int64_t s = 0; s < q.size(2); ++s) {
        std::vector<double> weight;
        double sum = 0;
        for (std::int64_t t = 0; t <= s; ++t) {
          const double score = q[b][h][s].dot(k[b][h][t]).item<double>() / std::sqrt(static_cast<double>(q.size(3)));
          weight.push_back(std::exp(score - slope[static_cast<std::size_t>(h)] * static_cast<double>(s - t)));
          sum += weight.back();
        }
        for (std::int64_t t = 0; t <= s; ++t) out[b][h][s] += v[b][h][t] * (weight[static_cast<std::size_t>(t)] / sum);
      }
    }
  }
  return out;
}

}  // namespace

TEST_CASE("ALiBi adds slope times distance, for powers of two and other numbers of heads") {
  const int heads = GENERATE(1, 4, 6, 12);
  const auto q = numbers({2, heads, 7, 4}, 0.1), k = numbers({2, heads, 7, 4}, 0.5), v = numbers({2, heads, 7, 4}, 0.9);
  const auto got = alibi_attention(nn::Alibi(root, heads), {q, k, v}, no_dropout, batch_of(2, 7));
  CHECK(difference(got, reference(q, k, v, slopes(heads))) < 1e-13);
  // float32's slopes come from float32 powers.
  const auto single = alibi_attention(nn::Alibi(root, heads), {q.to(at::kFloat), k.to(at::kFloat), v.to(at::kFloat)},
                                      no_dropout, batch_of(2, 7));
  CHECK(difference(single.to(at::kDouble), got) < 1e-5);
}

TEST_CASE("a rank's heads have their own slopes") {
  nn::Alibi part(root, 6);
  part.own_heads.fill("tensor_parallel", [](const at::Tensor& all) { return all.narrow(0, 2, 3); });
  const auto q = numbers({1, 3, 5, 4}, 0.1), k = numbers({1, 3, 5, 4}, 0.5), v = numbers({1, 3, 5, 4}, 0.9);
  const auto all = slopes(6);
  CHECK(difference(alibi_attention(part, {q, k, v}, no_dropout, batch_of(1, 5)),
                   reference(q, k, v, {all[2], all[3], all[4]})) < 1e-13);
}

TEST_CASE("ALiBi with the cache: a prompt, then a token at a time, equals the full sequence") {
  const auto q = numbers({2, 3, 8, 4}, 0.1), k = numbers({2, 3, 8, 4}, 0.5), v = numbers({2, 3, 8, 4}, 0.9);
  const auto expected = reference(q, k, v, slopes(3));
  const nn::Alibi alibi(root, 3);
  nn::KVCache cache(10);
  const auto part = [](const at::Tensor& t, std::int64_t begin, std::int64_t count) {
    return t.narrow(2, begin, count);
  };
  auto batch = batch_of(2, 5);
  CHECK(difference(alibi_attention(alibi, {part(q, 0, 5), part(k, 0, 5), part(v, 0, 5)}, no_dropout, batch, &cache),
                   part(expected, 0, 5)) < 1e-13);
  cache.set_filled();
  for (std::int64_t t = 5; t < 8; ++t) {
    batch.positions = at::full({2, 1}, t, at::kLong);
    CHECK(difference(alibi_attention(alibi, {part(q, t, 1), part(k, t, 1), part(v, t, 1)}, no_dropout, batch, &cache),
                     part(expected, t, 1)) < 1e-13);
  }
}

TEST_CASE("ALiBi's dropout acts on the probabilities, and its gradients are the numeric ones") {
  const nn::Alibi alibi(root, 2);
  const nn::Dropout some(root, "attention", 0.4);
  const auto batch = batch_of(1, 4, true);
  const auto q = numbers({1, 2, 4, 3}, 0.1), k = numbers({1, 2, 4, 3}, 0.5);
  // Values that are the identity show the probabilities.
  const auto eye = at::eye(4, at::kDouble).expand({1, 2, 4, 4});
  const auto whole = alibi_attention(alibi, {q, k, eye}, no_dropout, batch);
  CHECK(difference(alibi_attention(alibi, {q, k, eye}, some, batch), some.on_attention(whole, batch)) < 1e-14);
  for (const auto* dropout : {&no_dropout, &some}) {
    const auto function = [&](const std::vector<at::Tensor>& x) { return alibi_attention(alibi, x, *dropout, batch); };
    CHECK(jacobian_error(function, {q, k, numbers({1, 2, 4, 3}, 0.9)}) < 1e-8);
  }
}

TEST_CASE("bias columns carry the bias through a plain causal kernel") {
  for (const std::int64_t dim : {64, 80, 3}) {
    const auto q = numbers({2, 4, 9, dim}, 0.1), k = numbers({2, 4, 9, dim}, 0.5), v = numbers({2, 4, 9, dim}, 0.9);
    const double scale = 1 / std::sqrt(static_cast<double>(dim));
    const auto slope = at::tensor(slopes(4), at::kDouble).view({1, 4, 1});
    const auto bias = (slope * at::arange(-8, 1, at::TensorOptions(at::kDouble))).expand({2, 4, 9});
    const auto wide = ops::with_bias_columns(q, k, bias, scale);
    CHECK(wide.q.size(-1) == (dim + 3 + 7) / 8 * 8);
    CHECK(wide.k.sizes() == wide.q.sizes());
    const auto got = at::scaled_dot_product_attention(wide.q, wide.k, v, {}, 0.0, true, scale);
    CHECK(difference(got, reference(q, k, v, slopes(4))) < 1e-13);
  }
}

}  // namespace alibi_test
