// What operators take on a GPU by the rules for tensors without memory: nothing is computed.
#include <ATen/ATen.h>
#include <capstan_catch.h>

#include "predict/memory_counter.h"

namespace shape_rules_test {

using namespace capstan;

namespace {

// The most that backward of attention has beside its inputs: 8 query heads of 128 positions in 16 bits, 64 columns
// each.
std::int64_t peak_of_backward(std::int64_t key_heads) {
  const auto heads = [](std::int64_t count) {
    return at::empty({1, count, 128, 64}, at::TensorOptions(at::kMeta).dtype(at::kBFloat16)).requires_grad_(true);
  };
  const auto q = heads(8), k = heads(key_heads), v = heads(key_heads);
  const auto out = at::scaled_dot_product_attention(q, k, v, {}, 0, true, std::nullopt, /*enable_gqa=*/key_heads < 8);
  const auto gradient = at::empty(out.sizes(), out.options());
  const predict::MemoryCounter counter;
  out.backward(gradient);
  return counter.count().peak;
}

}  // namespace

TEST_CASE("query heads that share keys have gradients of keys and values of their own in attention's backward") {
  constexpr std::int64_t of_queries = std::int64_t{8} * 128 * 64 * 2;
  // Two key heads: their gradients are a quarter each, and there is one for each query head besides.
  CHECK(peak_of_backward(2) - peak_of_backward(8) == (of_queries / 4 + of_queries) * 2 - of_queries * 2);
}

}  // namespace shape_rules_test
