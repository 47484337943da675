#include <capstan/ops/segment_attention.h>

#include <ATen/ATen.h>
#include <capstan_catch.h>

#include <stdexcept>

namespace segment_attention_test {

using namespace capstan::ops;

namespace {

at::Tensor on_meta(at::IntArrayRef shape) {
  return at::empty(shape, at::TensorOptions(at::kMeta).dtype(at::kBFloat16));
}

at::Tensor bounds() { return at::empty({3}, at::TensorOptions(at::kMeta).dtype(at::kInt)); }

}  // namespace

TEST_CASE("values of fewer columns than the keys are widened for the kernel, and the result has theirs") {
  const auto out =
      segment_attention(on_meta({10, 4, 64}), on_meta({10, 2, 64}), on_meta({10, 2, 48}), {bounds(), 6, 0.125, {}});
  CHECK(out.sizes() == at::IntArrayRef({10, 4, 48}));
}

TEST_CASE("attention to segments takes whole groups of query heads, and values no wider than the keys") {
  const SegmentAttention how{bounds(), 6, 0.125, {}};
  const auto q = on_meta({10, 4, 64});
  CHECK_THROWS_AS(segment_attention(q, on_meta({10, 3, 64}), on_meta({10, 3, 64}), how), std::logic_error);
  CHECK_THROWS_AS(segment_attention(q, on_meta({10, 2, 64}), on_meta({10, 2, 72}), how), std::logic_error);
  CHECK_THROWS_AS(segment_attention(q, on_meta({10, 2, 32}), on_meta({10, 2, 32}), how), std::logic_error);
  CHECK_THROWS_AS(segment_attention(q.to(at::kFloat), q, q, how), std::logic_error);
}

}  // namespace segment_attention_test
