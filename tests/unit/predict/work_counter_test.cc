// What operators make a GPU do, counted on the meta device.
#include "predict/work_counter.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>

#include <capstan/ops/linear.h>
#include <capstan/ops/segment_attention.h>

namespace work_counter_test {

using namespace capstan;

namespace {

at::Tensor on_meta(at::IntArrayRef shape, bool wants_gradient = false) {
  return at::empty(shape, at::TensorOptions(at::kMeta).dtype(at::kBFloat16)).set_requires_grad(wants_gradient);
}

}  // namespace

TEST_CASE("a product counts by its shape, forward and backward") {
  const auto x = on_meta({4, 8, 32}, true), weight = on_meta({64, 32}, true);
  const predict::WorkCounter counted;
  const auto out = ops::linear(x, weight, {});
  REQUIRE(counted.work().products.size() == 1);
  const auto& [product, times] = *counted.work().products.begin();
  CHECK((product.rows == 32 && product.columns == 64 && product.depth == 32 && times == 1));
  CHECK(product.bytes == std::int64_t{2} * (32 * 32 + 32 * 64 + 32 * 64));
  out.backward(on_meta({4, 8, 64}));
  std::int64_t all = 0;
  double flops = 0;
  for (const auto& [one, count] : counted.work().products) {
    all += count;
    flops += static_cast<double>(count) * one.flops();
  }
  CHECK(all == 3);
  CHECK(flops == 3 * 2.0 * 32 * 64 * 32);
}

TEST_CASE("products of a batch are one launch, and those of float32 are known") {
  const auto a = on_meta({6, 4, 8}), b = on_meta({6, 8, 16});
  const predict::WorkCounter counted;
  (void)at::bmm(a, b);
  REQUIRE(counted.work().products.size() == 1);
  const auto& [product, times] = *counted.work().products.begin();
  CHECK((product.rows == 24 && product.columns == 16 && product.depth == 8 && times == 1));
  CHECK(product.flops() == 6 * 2.0 * 4 * 8 * 16);
  CHECK(product.bytes == std::int64_t{2} * 6 * (4 * 8 + 8 * 16 + 4 * 16));
  CHECK_FALSE(product.single);
  CHECK(counted.work().kernels == 1);
  (void)at::mm(a[0].to(at::kFloat), b[0].to(at::kFloat));
  CHECK(counted.work().products.rbegin()->first.single != counted.work().products.begin()->first.single);
}

TEST_CASE("a grouped product knows how many groups its rows are in") {
  const auto rows = on_meta({96, 32}), ends = at::empty({6}, at::TensorOptions(at::kMeta).dtype(at::kInt));
  const predict::WorkCounter counted;
  (void)at::_grouped_mm(rows, on_meta({6, 32, 64}), ends);
  REQUIRE(counted.work().products.size() == 1);
  CHECK(counted.work().products.begin()->first.groups == 6);
  CHECK(counted.work().products.begin()->first.rows == 96);
  (void)at::_grouped_mm(on_meta({32, 96}), on_meta({96, 64}), ends);  // whole matrices of each group
  for (const auto& [product, times] : counted.work().products) {
    if (product.rows == 32) CHECK(product.groups == 1);
  }
  CHECK(counted.work().products.size() == 2);
}

TEST_CASE("other operators count the bytes that they read and write, views nothing") {
  const auto x = on_meta({64, 64}), y = on_meta({64, 64});
  constexpr double size = 2.0 * 64 * 64;
  const predict::WorkCounter counted;
  (void)x.view({4096}).narrow(0, 0, 16).t();
  CHECK(counted.work().kernels == 0);
  (void)(x + y);
  CHECK(counted.work().bytes == 3 * size);
  CHECK(counted.work().kernels == 1);
  x.copy_(y);
  CHECK(counted.work().bytes == 5 * size);
  x.add_(y);
  CHECK(counted.work().bytes == 8 * size);
  // What is made of other operators counts as these.
  (void)x.to(at::kFloat);
  CHECK(counted.work().bytes == 8 * size + size + 2 * size);
  CHECK(counted.work().kernels == 4);
}

TEST_CASE("attention counts forward, and backward once it runs") {
  const auto q = on_meta({2, 8, 128, 64}, true), k = on_meta({2, 8, 128, 64}, true), v = on_meta({2, 8, 128, 64}, true);
  const predict::WorkCounter counted;
  const auto out = at::scaled_dot_product_attention(q, k, v, {}, 0, true);
  REQUIRE(counted.work().attention.size() == 1);
  CHECK(counted.work().attention_backward.empty());
  const auto& shape = counted.work().attention.begin()->first;
  CHECK((shape.heads == 16 && shape.queries == 128 && shape.keys == 128 && shape.width == 64 && shape.causal));
  CHECK(shape.flops() == 2.0 * 16 * 128 * 128 * 64);
  out.backward(on_meta(out.sizes()));
  CHECK(counted.work().attention_backward.size() == 1);
}

TEST_CASE("attention to segments counts each as long as the longest; its gradients have the inputs' shapes") {
  const auto fused = on_meta({300, 12, 64}, true);
  const auto parts = fused.split_with_sizes({8, 2, 2}, 1);
  const auto bounds = at::empty({5}, at::TensorOptions(at::kMeta).dtype(at::kInt));
  REQUIRE(ops::has_segment_attention(fused, 64));
  const predict::WorkCounter counted;
  const auto out = ops::segment_attention(parts[0], parts[1], parts[2], {bounds, 100, 0.125, {}});
  CHECK(out.sizes() == parts[0].sizes());
  REQUIRE(counted.work().attention.size() == 1);
  const auto& shape = counted.work().attention.begin()->first;
  CHECK((shape.heads == 32 && shape.queries == 100 && shape.keys == 100 && shape.width == 64 && shape.causal));
  CHECK(counted.work().kernels == 1);
  out.backward(on_meta(out.sizes()));
  CHECK(counted.work().attention_backward.size() == 1);
  CHECK(fused.grad().sizes() == fused.sizes());
}

TEST_CASE("attention to segments is not for CPUs, float32, and heads of odd or large widths") {
  CHECK_FALSE(ops::has_segment_attention(at::empty({1}, at::kBFloat16), 64));
  CHECK_FALSE(ops::has_segment_attention(on_meta({1}).to(at::kFloat), 64));
  CHECK_FALSE(ops::has_segment_attention(on_meta({1}).to(at::kBFloat16), 60));
  CHECK_FALSE(ops::has_segment_attention(on_meta({1}).to(at::kBFloat16), 264));
}

TEST_CASE("nothing is counted before and after") {
  const auto x = on_meta({8, 8});
  { const predict::WorkCounter first; }
  (void)(x + x);
  const predict::WorkCounter second;
  CHECK(second.work().kernels == 0);
}

}  // namespace work_counter_test
