// Attention to a cache against loops over rows, heads, queries and keys in float64.
#include "ops/decode_attention.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>

#include <algorithm>
#include <cmath>

#include "nn/weights.h"

namespace decode_attention_test {

using namespace capstan;
using capstan::testing::numbers;

namespace {

constexpr std::int64_t rows = 3, heads = 4, dim = 4, capacity = 12;

// What a cache holds beyond the tokens so far is never to be seen.
ops::DecodeAttention some(std::int64_t kv_heads, const at::Tensor& positions, std::int64_t window, bool alibi) {
  const auto tokens = positions.size(1);
  const auto cache = [&](double phase) {
    auto all = numbers({rows, kv_heads, capacity, dim}, phase);
    for (std::int64_t row = 0; row < rows; ++row) all[row].slice(1, positions[row][0].item<std::int64_t>()).fill_(1e3);
    return all;
  };
  return {numbers({rows, heads, tokens, dim}, 0.1),
          numbers({rows, kv_heads, tokens, dim}, 0.5),
          numbers({rows, kv_heads, tokens, dim}, 0.9),
          cache(0.2),
          cache(0.4),
          positions,
          alibi ? at::tensor({0.5, 0.25, 0.125, 0.0625}, at::kDouble) : at::Tensor(),
          0.7,
          window};
}

// The result for one query, from the cache that decode_attention has left.
at::Tensor expected(const ops::DecodeAttention& how, std::int64_t row, std::int64_t head, std::int64_t token) {
  const auto kv_head = head / (heads / how.keys.size(1));
  const auto own = how.positions[row][token].item<std::int64_t>();
  double sum = 0;
  auto out = at::zeros({dim}, at::kDouble);
  for (auto t = std::max<std::int64_t>(0, own + 1 - how.window); t <= own; ++t) {
    auto score = how.scale * how.q[row][head][token].dot(how.keys[row][kv_head][t]).item<double>();
    if (how.slopes.defined()) score += how.slopes[head].item<double>() * static_cast<double>(t);
    sum += std::exp(score);
    out += std::exp(score) * how.values[row][kv_head][t];
  }
  return out / sum;
}

void check(const ops::DecodeAttention& how) {
  const auto before = how.keys.clone();
  const auto out = ops::decode_attention(how);
  REQUIRE(out.sizes() == how.q.sizes());
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto own = how.positions[row];
    CHECK(at::equal(how.keys[row].index_select(1, own), how.k[row]));
    CHECK(at::equal(how.values[row].index_select(1, own), how.v[row]));
    CHECK(at::equal(how.keys[row].narrow(1, 0, own[0].item<std::int64_t>()),
                    before[row].narrow(1, 0, own[0].item<std::int64_t>())));
    for (std::int64_t head = 0; head < heads; ++head) {
      for (std::int64_t token = 0; token < own.size(0); ++token) {
        const auto difference = out[row][head][token] - expected(how, row, head, token);
        CHECK(difference.abs().max().item<double>() < 1e-13);
      }
    }
  }
}

}  // namespace

TEST_CASE("a token sees the cache up to its own position, by heads of keys that queries share") {
  const std::int64_t kv_heads = GENERATE(1, 2, 4);
  const bool alibi = GENERATE(false, true);
  const auto at_ends = at::tensor({0, 11, 5}, at::kLong).view({3, 1});
  check(some(kv_heads, at_ends, capacity, alibi));
  for (const std::int64_t window : {1, 3, 100}) check(some(kv_heads, at_ends, window, alibi));
}

TEST_CASE("several tokens a row see those before them") {
  const auto positions = at::tensor({0, 1, 2, 9, 10, 11, 4, 5, 6}, at::kLong).view({3, 3});
  check(some(2, positions, capacity, true));
  check(some(2, positions, 2, false));
}

}  // namespace decode_attention_test
