// Packed rows: attention to segments where they stand, against the float64 reference, which takes samples apart.
#include <ATen/ATen.h>
#include <capstan/nn/attention.h>
#include <capstan/ops/segment_attention.h>
#include <capstan_catch.h>

#include "compare.h"
#include "models/bloom/attention.h"
#include "step/feed.h"
#include "step/to_device.h"
#include "support/alibi.h"

namespace packing_test {

using namespace capstan;
using capstan::testing::numbers;

namespace {

constexpr std::int64_t rows = 2, cols = 264;

// The first row's padding is one stretch; the second's is longer than the longest sample, and cut.
nn::Batch packed_batch(at::Device device) {
  data::HostBatch host;
  host.rows = rows;
  host.cols = cols;
  host.tokens.assign(rows * cols, 0);
  host.labels.assign(rows * cols, -100);
  host.documents = {{0, 0, 130, 7}, {1, 0, 65, 8}, {0, 130, 64, 3}, {0, 194, 50, 9}, {0, 244, 1, 5}};
  host.lengths = {245, 65};
  host.sample_ids = {7, 8};
  return step::to_device(host, device);
}

struct Heads {
  std::int64_t queries, keys, dim;
};

// q, k and v as they lie in a fused projection.
Inputs in_one(const Inputs& parts) {
  const auto fused = at::cat({parts[0], parts[1], parts[2]}, 2);
  const auto each = fused.split_with_sizes({parts[0].size(2), parts[1].size(2), parts[2].size(2)}, 2);
  return {each[0].transpose(1, 2), each[1].transpose(1, 2), each[2].transpose(1, 2)};
}

using Attend = std::function<at::Tensor(const Inputs&, const nn::Batch&)>;

// What padding computes is of no meaning, and bears no gradient.
Function on(const Attend& attend, const nn::Batch& batch) {
  return [attend, batch](const Inputs& parts) {
    const auto y = attend(in_one(parts), batch).transpose(1, 2);
    return y * batch.real.unsqueeze(-1).unsqueeze(-1).to(y.scalar_type());
  };
}

// As near to the exact numbers as the same in 16 bits with samples apart.
void check_near(const Attend& attend, const Heads& heads, at::ScalarType type) {
  Inputs narrow, wide;
  for (const auto& [count, phase] : {std::pair(heads.queries, 0.1), {heads.keys, 0.5}, {heads.keys, 0.9}}) {
    const auto input = numbers({rows, cols, count, heads.dim}, phase).to(type);
    narrow.push_back(on_gpu(input));
    wide.push_back(input.to(at::kDouble));
  }
  const auto batch = packed_batch(at::kCUDA);
  auto apart = batch;
  apart.documents->bounds = at::Tensor();
  REQUIRE(batch.documents->bounds.numel() == 9);
  const auto expected = all_of(on(attend, packed_batch(at::kCPU)), wide);
  const auto got = all_of(on(attend, batch), narrow), other = all_of(on(attend, apart), narrow);
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO(i << ": " << distance(got[i], expected[i]) << ", apart " << distance(other[i], expected[i]));
    CHECK(distance(got[i], expected[i]) < 1.0 / 256 + 2 * distance(other[i], expected[i]));
  }
}

nn::Layer& root() {
  static nn::Layer layer("root");
  return layer;
}

}  // namespace

TEST_CASE("GPU: each sample attends to itself where it stands, with grouped heads, of any width and with a window",
          "[packing]") {
  const nn::Dropout none(root(), "attention", 0);
  const auto check = [&](const Heads& heads, at::ScalarType type, std::optional<std::int64_t> window) {
    INFO(type << ", " << heads.queries << " and " << heads.keys << " heads of " << heads.dim << ", window "
              << window.value_or(0));
    REQUIRE(ops::has_segment_attention(at::empty({1}, at::TensorOptions(type).device(at::kCUDA)), heads.dim));
    const Attend attend = [&](const Inputs& in, const nn::Batch& batch) {
      return nn::causal_attention(in[0], in[1], in[2], none, batch, nullptr, 0, {0.11, window});
    };
    check_near(attend, heads, type);
  };
  for (const auto& heads : {Heads{4, 4, 64}, {8, 2, 128}, {4, 1, 80}, {4, 2, 256}, {3, 3, 40}}) {
    check(heads, at::kBFloat16, {});
    check(heads, at::kBFloat16, 50);
  }
  check({8, 2, 128}, at::kHalf, {});
  for (const std::int64_t window : {1, 129, 130}) check({8, 2, 128}, at::kBFloat16, window);
}

TEST_CASE("GPU: ALiBi counts distances within each sample where it stands", "[packing]") {
  const nn::Dropout none(root(), "attention", 0);
  for (const auto& heads : {Heads{4, 4, 64}, {3, 3, 128}}) {
    const nn::Alibi alibi(root(), heads.queries);
    const Attend attend = [&](const Inputs& in, const nn::Batch& batch) {
      return testing::alibi_attention(alibi, in, none, batch);
    };
    // As BLOOM does it.
    const Attend fused = [&](const Inputs& in, const nn::Batch& batch) {
      if (!batch.documents->bounds.defined() || in[0].is_cpu()) return attend(in, batch);
      const auto by_head = at::stack({in[0].transpose(1, 2), in[1].transpose(1, 2), in[2].transpose(1, 2)}, 3);
      nn::AttentionSpec spec;
      spec.alibi = true;
      nn::AttentionCall call{&spec, in[0], in[1], in[2]};
      call.slopes = alibi.slopes(in[0]);
      call.fused = by_head.flatten(2);
      call.batch = &batch;
      const auto row = bloom::rows().back();
      REQUIRE(!nn::AttentionTable::verdict(row, call));
      return row.run(call).out;
    };
    check_near(attend, heads, at::kBFloat16);
    check_near(fused, heads, at::kBFloat16);
  }
}

TEST_CASE("GPU: what attention to segments does not take works apart: float32, odd widths, dropout", "[packing]") {
  const auto like = [](at::ScalarType type) { return at::empty({1}, at::TensorOptions(type).device(at::kCUDA)); };
  CHECK_FALSE(ops::has_segment_attention(like(at::kFloat), 64));
  CHECK_FALSE(ops::has_segment_attention(like(at::kBFloat16), 60));
  CHECK_FALSE(ops::has_segment_attention(like(at::kBFloat16), 264));
  const nn::Dropout half(root(), "attention", 0.5), none(root(), "attention", 0);
  const auto x = numbers({rows, cols, 2, 20}, 0.3);
  const auto attend = [&](const nn::Dropout& dropout, at::ScalarType type, at::Device device) {
    auto batch = packed_batch(device);
    batch.training = true;
    const auto heads = x.to(at::kBFloat16).to(type).to(device).transpose(1, 2);
    return nn::causal_attention(heads, heads, heads, dropout, batch, nullptr, 0).transpose(1, 2);
  };
  CHECK(distance(attend(none, at::kFloat, at::kCUDA), attend(none, at::kDouble, at::kCPU)) < 1e-4);
  CHECK(distance(attend(none, at::kBFloat16, at::kCUDA), attend(none, at::kDouble, at::kCPU)) < 3.0 / 256);
  CHECK(distance(attend(half, at::kFloat, at::kCUDA), attend(half, at::kDouble, at::kCPU)) < 1e-4);
}

}  // namespace packing_test
