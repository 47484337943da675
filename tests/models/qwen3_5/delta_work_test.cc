// What a step's time is predicted from: all chunks of the gated delta rule are multiplied by one launch each time, and
// only the state goes from chunk to chunk.
#include <ATen/ATen.h>
#include <capstan_catch.h>

#include "models/qwen3_5/gated_delta_rule.h"
#include "predict/door.h"
#include "predict/work_counter.h"

namespace delta_work_test {

using namespace capstan;

namespace {

struct Counts {
  std::int64_t products = 0;
  double flops = 0;
  bool single = true;
};

Counts counts(const plan::Work& work) {
  Counts made;
  for (const auto& [product, times] : work.products) {
    made.products += times;
    made.flops += static_cast<double>(times) * product.flops();
    made.single = made.single && product.single;
  }
  return made;
}

}  // namespace

TEST_CASE("products of the gated delta rule: six of all chunks and two a chunk, of as many operations as they have") {
  (void)predict::door();  // has the meta kernels that ATen has only in Python
  constexpr std::int64_t rows = 2, keys = 4, values = 8, wide = 16, chunk = 64;
  const auto of = [&](std::int64_t chunks) {
    const auto on_meta = [&](std::int64_t heads, std::int64_t dim, at::ScalarType type) {
      auto shape = std::vector<std::int64_t>{rows, chunks * chunk, heads};
      if (dim > 0) shape.push_back(dim);
      return at::empty(shape, at::TensorOptions(at::kMeta).dtype(type));
    };
    const predict::WorkCounter counted;
    (void)qwen3_5::gated_delta_rule({on_meta(keys, wide, at::kBFloat16), on_meta(keys, wide, at::kBFloat16),
                                     on_meta(values, wide, at::kBFloat16), on_meta(values, 0, at::kFloat),
                                     on_meta(values, 0, at::kBFloat16)});
    return counts(counted.work());
  };
  const auto one = of(1), three = of(3);
  CHECK(one.products == 6 + 2);
  CHECK(three.products == 6 + 3 * 2);
  CHECK(one.single);
  // Pairs of tokens by key head twice, by value head three times; a state is read twice and written once.
  constexpr double pairs = 2.0 * chunk * chunk * wide, states = 2.0 * chunk * wide * wide;
  CHECK(one.flops == rows * (keys * 2 * pairs + values * (3 * pairs + 3 * states)));
  CHECK(three.flops == 3 * one.flops);
}

}  // namespace delta_work_test
