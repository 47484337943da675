// Passes that are one where ATen has several: CUDA against plain references.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <capstan/ops/cross_entropy.h>
#include <capstan/ops/gelu.h>
#include <capstan/ops/linear.h>
#include <capstan/ops/swiglu.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>
#include "ops/move_rows.h"

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "gpu/compare.h"
#include "nn/weights.h"
#include "ops/activated_linear.h"
#include "ops/activation.h"
#include "ops/softmax_rows.h"

using namespace capstan::ops;
using capstan::testing::numbers;

namespace {}  // namespace

TEST_CASE("GPU: gelu and its gradient equal CPU's, in packs of 16 bytes and one by one") {
  const double bounds[] = {1e-14, 2e-6, 1.0 / 256, 1.0 / 2048};
  for (int i = 0; i < 4; ++i) {
    for (const bool tanh : {true, false}) {
      for (const std::int64_t size : {262144, 30011, 5}) {
        INFO(i << " " << tanh << " " << size);
        const auto x = numbers({size}, 0.1).mul(6).to(float_types[i]);
        const Function function = [&](const Inputs& in) { return gelu(in[0], tanh); };
        const auto got = all_of(function, {on_gpu(x)}), expected = all_of(function, {x.to(at::kDouble)});
        for (std::size_t k = 0; k < got.size(); ++k) CHECK(distance(got[k], expected[k]) < bounds[i]);
      }
    }
  }
}

TEST_CASE("GPU: gated activations and their gradients are the definition's, rounded once", "[products]") {
  // float64, float32 and the 16-bit types in the order of float_types: exponentials, then one rounding.
  const double bounds[] = {1e-12, 1e-5, 1.0 / 256, 1.0 / 2048};
  for (int i = 0; i < 4; ++i) {
    for (const auto kind : {Activating::swiglu, Activating::geglu_tanh}) {
      for (const std::int64_t columns : {4096, 37}) {
        INFO(i << " " << static_cast<int>(kind) << " " << columns);
        const auto x = numbers({3, 5, 2 * columns}, 0.1).mul(4).to(float_types[i]);
        const Function function = [&](const Inputs& in) { return activated(in[0], kind); };
        const auto got = all_of(function, {on_gpu(x)}), expected = all_of(function, {x.to(at::kDouble)});
        for (std::size_t k = 0; k < got.size(); ++k) CHECK(distance(got[k], expected[k]) < bounds[i]);
      }
    }
  }
}

// 16 bits hide that the compiler joins other products and sums in the one kernel than in the other.
TEST_CASE("GPU: an activation and its product as one node are the two, in 16 bits bit for bit", "[products]") {
  const double bounds[] = {1e-13, 1e-5, 0, 0};
  for (int i = 0; i < 4; ++i) {
    const auto type = float_types[i];
    for (const auto kind : {Activating::gelu, Activating::gelu_tanh, Activating::swiglu, Activating::geglu_tanh}) {
      for (const std::int64_t columns : {64, 37}) {
        INFO(type << " " << columns);
        const auto x = on_gpu(numbers({3, 70, is_gated(kind) ? 2 * columns : columns}, 0.1).mul(3).to(type));
        const auto weight = on_gpu(numbers({48, columns}, 0.5).to(type)), bias = on_gpu(numbers({48}, 0.9).to(type));
        const auto alone = [&](const at::Tensor& in) { return activated(in, kind); };
        const auto got =
            all_of([&](const Inputs& in) { return activated_linear(in[0], kind, in[1], in[2]); }, {x, weight, bias});
        const auto expected = all_of([&](const Inputs& in) { return capstan::ops::linear(alone(in[0]), in[1], in[2]); },
                                     {x, weight, bias});
        for (std::size_t k = 0; k < got.size(); ++k) CHECK(distance(got[k], expected[k]) <= bounds[i]);
      }
    }
  }
}

namespace {

constexpr int passes = 30;

// Microseconds of one call on the device; queued while other work runs, so that the host's time does not count.
double microseconds(const std::function<void()>& call) {
  const c10::impl::VirtualGuardImpl device(c10::DeviceType::CUDA);
  const auto stream = device.getStream(c10::Device(c10::DeviceType::CUDA, 0));
  for (int i = 0; i < 3; ++i) call();
  const auto busy = at::zeros({8192, 8192}, at::TensorOptions(at::kBFloat16).device(at::kCUDA));
  for (int i = 0; i < 6; ++i) busy.mm(busy);
  c10::Event begin(c10::DeviceType::CUDA, c10::EventFlag::BACKEND_DEFAULT);
  c10::Event end(c10::DeviceType::CUDA, c10::EventFlag::BACKEND_DEFAULT);
  begin.record(stream);
  for (int i = 0; i < passes; ++i) call();
  end.record(stream);
  end.synchronize();
  return begin.elapsedTime(end) * 1000 / passes;
}

void line(const std::string& what, double us, double bytes) {
  std::printf("%-56s %9.1f us %6.2f TB/s\n", what.c_str(), us, bytes / us / 1e6);
}

}  // namespace

TEST_CASE("fused passes, of BLOOM-560M at 512 x 16", "[.bench]") {
  const auto options = at::TensorOptions(at::kBFloat16).device(at::kCUDA);
  const auto x = at::randn({16, 512, 4096}, options), g = at::randn({16, 512, 4096}, options);
  const double size = 2.0 * 16 * 512 * 4096;
  const auto by = Activating::gelu_tanh;
  line("GELU by ATen", microseconds([&] { at::gelu(x, "tanh"); }), 2 * size);
  line("GELU", microseconds([&] { activation(x, by); }), 2 * size);
  line("its gradient by ATen", microseconds([&] { at::gelu_backward(g, x, "tanh"); }), 3 * size);
  line("its gradient", microseconds([&] { activation_backward(g, x, by); }), 3 * size);
  line("its gradient and the value again", microseconds([&] { activation_both_(g, x, by); }), 4 * size);
  for (const std::int64_t words : {250880, 128256, 32000}) {
    const std::int64_t rows = (std::int64_t{1} << 28) / words / 256 * 256;
    const auto kept = at::randn({rows, words}, options.dtype(at::kFloat)), logits = kept.clone();
    const auto column = at::arange(rows, options.dtype(at::kLong)), losses = at::empty({rows}, logits.options());
    const auto one = column.unsqueeze(1);
    const double bytes = 4.0 * static_cast<double>(rows * words);
    line("softmax's statistics", microseconds([&] { softmax_statistics(logits, one); }), bytes);
    const auto [maximum, sum, picked] = softmax_statistics(logits, one);
    line("and gradient in another pass",
         microseconds([&] { softmax_gradient_(logits, maximum, sum, one, 1, at::kBFloat16); }), 1.5 * bytes);
    logits.copy_(kept);
    line("both and losses at once, of " + std::to_string(words) + " words",
         microseconds([&] { softmax_loss_(logits, column, 1, at::kBFloat16, losses); }), 1.5 * bytes);
  }
}

TEST_CASE("the loss over BLOOM's words, by rows of a chunk", "[.bench]") {
  const auto options = at::TensorOptions(at::kBFloat16).device(at::kCUDA);
  const auto hidden = at::randn({8192, 1024}, options).set_requires_grad(true);
  const auto weight = at::randn({250880, 1024}, options).mul_(0.02).set_requires_grad(true);
  const auto labels = at::randint(250880, {8192}, options.dtype(at::kLong));
  for (const std::int64_t rows : {1069, 1024, 2048, 4096}) {
    const auto us = microseconds([&] { chunked_linear_cross_entropy(hidden, weight, labels, rows); });
    std::printf("%5ld rows: %8.1f us, %5.0f TFLOP/s\n", static_cast<long>(rows), us,
                6 * 8192 * 1024 * 250880.0 / us / 1e6);
  }
  for (const std::int64_t some : {256, 512, 768, 1024, 2048}) {
    const auto rows = at::arange(some, labels.options());
    const auto us = microseconds(
        [&] { chunked_linear_cross_entropy(pick_rows(hidden, rows), weight, labels.index_select(0, rows), 2048); });
    std::printf("of %5ld rows alone: %8.1f us\n", static_cast<long>(some), us);
  }
}
