// Packed rows: attention and dropout of each sample are those that it has in a row of its own.
#include <ATen/ATen.h>
#include <capstan/nn/attention.h>
#include <capstan_catch.h>

#include "nn/weights.h"
#include "ops/jacobian.h"
#include "support/alibi.h"

namespace packing_test {

using namespace capstan;
using capstan::testing::difference;
using capstan::testing::jacobian_error;
using capstan::testing::numbers;

namespace {

// Both sides take the same sums in float64, over rows padded to different lengths.
constexpr double tolerance = 1e-13;

nn::Layer root("root");

struct Place {
  std::int64_t row;
  std::int64_t begin;
  std::int64_t length;
};

// Samples 40, 41, … in two rows of 9 positions; two of these stay empty.
const std::vector<Place> places{{0, 0, 4}, {0, 4, 5}, {1, 1, 1}, {1, 2, 6}};
constexpr std::int64_t rows = 2, cols = 9, longest = 6;

nn::Batch packed_batch(bool training) {
  nn::Batch batch;
  std::vector<std::int64_t> packed, alone, positions(rows * cols, 0), ids;
  for (std::size_t i = 0; i < places.size(); ++i) {
    ids.push_back(40 + static_cast<std::int64_t>(i));
    for (std::int64_t t = 0; t < places[i].length; ++t) {
      const auto at = places[i].row * cols + places[i].begin + t;
      packed.push_back(at);
      alone.push_back(static_cast<std::int64_t>(i) * longest + t);
      positions[static_cast<std::size_t>(at)] = t;
    }
  }
  batch.positions = at::tensor(positions, at::kLong).view({rows, cols});
  batch.sample_ids = at::full({rows}, -5, at::kLong);  // they mean nothing here
  batch.documents = nn::Documents{at::tensor(packed, at::kLong), at::tensor(alone, at::kLong),
                                  at::tensor(ids, at::kLong), static_cast<std::int64_t>(places.size()), longest};
  batch.seed = 7;
  batch.step = 3;
  batch.training = training;
  return batch;
}

nn::Batch single_batch(std::size_t i, bool training) {
  auto batch = packed_batch(training);
  batch.documents.reset();
  batch.positions = at::arange(places[i].length, at::kLong).unsqueeze(0);
  batch.sample_ids = at::full({1}, 40 + static_cast<std::int64_t>(i), at::kLong);
  return batch;
}

// [1, heads, length, dim] of sample i.
at::Tensor heads_of(const at::Tensor& x, std::size_t i) {
  return x.narrow(0, places[i].row, 1).narrow(2, places[i].begin, places[i].length);
}

template <class Attend>
void check_each(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool training, const Attend& attend) {
  const at::Tensor out = attend(q, k, v, packed_batch(training));
  REQUIRE(out.sizes() == q.sizes());
  for (std::size_t i = 0; i < places.size(); ++i) {
    INFO("sample " << i);
    const at::Tensor expected = attend(heads_of(q, i), heads_of(k, i), heads_of(v, i), single_batch(i, training));
    CHECK(difference(heads_of(out, i), expected) < tolerance);
  }
  CHECK(out.narrow(0, 1, 1).narrow(2, 0, 1).abs().max().item<double>() == 0);  // where no sample is
  CHECK(out.narrow(0, 1, 1).narrow(2, 8, 1).abs().max().item<double>() == 0);
}

}  // namespace

TEST_CASE("each sample of a packed row attends only to itself, with grouped heads and dropout too") {
  const bool drops = GENERATE(false, true);
  const nn::Dropout dropout(root, "attention", drops ? 0.4 : 0.0);
  const auto q = numbers({rows, 4, cols, 6}, 0.1), k = numbers({rows, 2, cols, 6}, 0.5),
             v = numbers({rows, 2, cols, 6}, 0.9);
  check_each(q, k, v, drops, [&](const auto& queries, const auto& keys, const auto& values, const nn::Batch& batch) {
    return nn::causal_attention(queries, keys, values, dropout, batch, nullptr, 0);
  });
}

TEST_CASE("ALiBi counts distances within each sample of a packed row") {
  const bool drops = GENERATE(false, true);
  const nn::Dropout dropout(root, "attention", drops ? 0.4 : 0.0);
  const nn::Alibi alibi(root, 3);
  const auto q = numbers({rows, 3, cols, 4}, 0.1), k = numbers({rows, 3, cols, 4}, 0.5),
             v = numbers({rows, 3, cols, 4}, 0.9);
  check_each(q, k, v, drops, [&](const auto& queries, const auto& keys, const auto& values, const nn::Batch& batch) {
    return testing::alibi_attention(alibi, {queries, keys, values}, dropout, batch);
  });
}

TEST_CASE("a packed sample has the dropout mask that it has in a row of its own") {
  const nn::Dropout dropout(root, "site", 0.5);
  const auto x = numbers({rows, cols, 5}, 0.2);
  const auto out = dropout.forward(x, packed_batch(true));
  for (std::size_t i = 0; i < places.size(); ++i) {
    INFO("sample " << i);
    const auto own = [&](const at::Tensor& t) {
      return t.narrow(0, places[i].row, 1).narrow(1, places[i].begin, places[i].length);
    };
    CHECK(at::equal(own(out), dropout.forward(own(x).contiguous(), single_batch(i, true))));
  }
  CHECK(at::equal(dropout.forward(x, packed_batch(false)), x));
}

TEST_CASE("gradients of packed attention are the numeric ones") {
  const nn::Dropout none(root, "attention", 0);
  const auto batch = packed_batch(true);
  const std::vector<at::Tensor> inputs{numbers({rows, 2, cols, 2}, 0.1), numbers({rows, 1, cols, 2}, 0.5),
                                       numbers({rows, 1, cols, 2}, 0.9)};
  CHECK(jacobian_error(
            [&](const std::vector<at::Tensor>& x) {
              return nn::causal_attention(x[0], x[1], x[2], none, batch, nullptr, 0);
            },
            inputs) < 1e-8);
}

}  // namespace packing_test
