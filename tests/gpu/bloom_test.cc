// Attention with linear biases by cuDNN: against the plain reference in float64.
#include "models/bloom/attention.h"
#include "models/bloom/heads.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include "gpu/compare.h"
#include "ops/device_graph.h"
#include "plugins/strategies/recompute/attention_results.cc"

using namespace capstan;
using capstan::testing::numbers;

namespace {

struct Size {
  std::int64_t rows, length, heads, dim;
};

at::Tensor slopes_of(std::int64_t heads, at::Device device) {
  return at::arange(heads, 0, -1, at::kFloat).mul(-0.9).exp2().to(device);
}

at::Tensor projection(const Size& size) { return numbers({size.rows, size.length, size.heads * 3 * size.dim}, 0.2); }

at::Tensor plain(const at::Tensor& fused, const Size& size) {
  const auto parts = fused.view({size.rows, size.length, size.heads, 3, size.dim}).unbind(3);
  const auto at = [&](std::size_t i) { return parts[i].transpose(1, 2); };
  return at::scaled_dot_product_attention(at(0), at(1), at(2), {}, 0.0, /*is_causal=*/true);
}

at::Tensor biased(const at::Tensor& fused, const at::Tensor& slopes) {
  if (fused.is_cpu()) return bloom::attention_by_operator(fused, slopes);
  return bloom::fused_attention(fused, slopes).value();
}

}  // namespace

TEST_CASE("GPU: attention with linear biases by cuDNN equals CPU's float64 up to rounding", "[bloom]") {
  for (const auto& size :
       {Size{1, 2, 5, 64}, {3, 63, 4, 8}, {2, 64, 16, 64}, {2, 65, 3, 80}, {1, 300, 3, 128}, {2, 1024, 2, 64}}) {
    for (const auto type : {at::kBFloat16, at::kHalf}) {
      INFO(type << " " << size.rows << " x " << size.length << ", " << size.heads << " heads of " << size.dim);
      const auto narrow = projection(size).to(type), wide = narrow.to(at::kDouble);
      const auto at_once = [&](const Inputs& in) { return biased(in[0], slopes_of(size.heads, in[0].device())); };
      const auto without = [&](const Inputs& in) { return plain(in[0], size); };
      const auto got = all_of(at_once, {on_gpu(narrow)}), expected = all_of(at_once, {wide});
      // Gradients of q and k are small differences of large numbers: plain attention's own error says how small.
      const auto plain_got = all_of(without, {on_gpu(narrow)}), plain_expected = all_of(without, {wide});
      for (std::size_t k = 0; k < got.size(); ++k)
        CHECK(distance(got[k], expected[k]) < 2.0 / 256 + 2 * distance(plain_got[k], plain_expected[k]));
    }
  }
}

TEST_CASE("GPU: attention with linear biases that cuDNN does not take is the layer's", "[bloom]") {
  // It has no backward of one head and one position.
  const auto one_position = on_gpu(projection({2, 1, 1, 64}).to(at::kBFloat16)).set_requires_grad(true);
  CHECK_FALSE(bloom::fused_attention(one_position, slopes_of(1, at::kCUDA)).has_value());
}

TEST_CASE("GPU: attention with linear biases that is kept is not computed again, and has the same gradients",
          "[bloom]") {
  const Size size{2, 130, 4, 64};
  const auto fused = on_gpu(projection(size).to(at::kBFloat16)).set_requires_grad(true);
  const auto slopes = slopes_of(size.heads, at::kCUDA);
  const std::function<at::Tensor()> kernels = [&] { return biased(fused, slopes); };
  recompute::AttentionResults results({});
  at::Tensor first;
  {
    const at::NoGradGuard none;
    first = results.run(kernels);
  }
  const auto again = results.run(kernels);
  CHECK(again.data_ptr() == first.data_ptr());
  const auto gradient_of = [&](const at::Tensor& y) {
    return torch::autograd::grad({y}, {fused}, {at::ones_like(y)}).at(0);
  };
  // Sums of the queries' gradients have no order.
  CHECK(distance(gradient_of(again), gradient_of(kernels())) < 1.0 / 128);
}

TEST_CASE("GPU: attention with linear biases runs in a recorded graph", "[bloom]") {
  const Size size{2, 130, 4, 64};
  const auto fused = on_gpu(projection(size).to(at::kBFloat16));
  const auto slopes = slopes_of(size.heads, at::kCUDA);
  const at::NoGradGuard none;
  const auto expected = biased(fused, slopes);
  const auto input = at::zeros_like(fused), y = at::empty_like(expected);
  const auto recorder = ops::graph_recorder(fused.device());
  const auto graph = recorder->record([&](const auto&) { y.copy_(biased(input, slopes)); });
  input.copy_(fused);
  graph->replay();
  CHECK(at::equal(y, expected));
}

TEST_CASE("GPU: widened heads equal CPU's, forward and backward", "[bloom]") {
  for (const std::int64_t dim : {64, 80, 3}) {
    INFO(dim);
    const auto where = at::arange(7, at::kLong).expand({2, 7});
    for (const auto type : float_types) {
      const auto slopes =
          at::tensor({0.5, 0.0883883, 0.00390625}, at::TensorOptions(type == at::kDouble ? at::kDouble : at::kFloat));
      const auto function = [&](const Inputs& in) {
        const auto device = in[0].device();
        const auto heads = bloom::widened_heads(in[0].flatten(2), slopes.to(device), where.to(device), 0.125);
        return at::cat({heads.q, heads.v, heads.k}, -1);
      };
      const auto fused = numbers({2, 7, 3, 3, dim}, 0.1).to(type);
      const auto got = all_of(function, {on_gpu(fused)}), wanted = all_of(function, {fused});
      for (std::size_t k = 0; k < got.size(); ++k) CHECK(at::equal(got[k].cpu(), wanted[k]));
    }
  }
}
