// How fast matrices become 8 bits, and how fast products of these are: test_gpu '[.bench]'. A table, no verdict.
#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <capstan_catch.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "plugins/strategies/fp8/quantise_blocks.h"

namespace quantise_bench {

using namespace fp8;

namespace {

constexpr int passes = 40;

// Microseconds of one call on the device. The calls are queued while other work runs, so that the host's time does not
// count, and read different memory one after the other, so that it is not in the cache.
double microseconds(const std::vector<at::Tensor>& inputs, const std::function<void(const at::Tensor&)>& call) {
  const c10::impl::VirtualGuardImpl device(c10::DeviceType::CUDA);
  const auto stream = device.getStream(inputs.front().device());
  for (const auto& each : inputs) call(each);
  const auto busy = at::zeros({8192, 8192}, inputs.front().options().dtype(at::kBFloat16));
  for (int i = 0; i < 4; ++i) busy.mm(busy);
  c10::Event begin(c10::DeviceType::CUDA, c10::EventFlag::BACKEND_DEFAULT);
  c10::Event end(c10::DeviceType::CUDA, c10::EventFlag::BACKEND_DEFAULT);
  begin.record(stream);
  for (int i = 0; i < passes; ++i) call(inputs[static_cast<std::size_t>(i) % inputs.size()]);
  end.record(stream);
  end.synchronize();
  return begin.elapsedTime(end) * 1000 / passes;
}

std::vector<at::Tensor> inputs_of(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t beyond_cache = 128 << 20;
  std::vector<at::Tensor> all;
  const auto options = at::TensorOptions().device(at::kCUDA).dtype(at::kBFloat16);
  for (std::int64_t bytes = 0; bytes < beyond_cache; bytes += rows * columns * 2)
    all.push_back(at::randn({rows, columns}, options));
  return all;
}

void line(const std::string& what, std::int64_t rows, std::int64_t columns, double us, double bytes_an_element) {
  const auto bytes = static_cast<double>(rows * columns) * bytes_an_element;
  std::printf("%-34s %6ld x %6ld %9.1f us %6.2f TB/s\n", what.c_str(), static_cast<long>(rows),
              static_cast<long>(columns), us, bytes / us / 1e6);
}

}  // namespace

TEST_CASE("matrices to 8 bits", "[.bench]") {
  const Rounding rows, columns{.transposed = true}, whole{.by_row = false};
  for (const std::int64_t m : {2048, 8192, 16384}) {
    for (const std::int64_t n : {4096, 6144, 14336, 28672}) {
      const auto x = inputs_of(m, n);
      line("rows", m, n, microseconds(x, [&](const at::Tensor& t) { quantise(t, rows); }), 3);
      line("rows' magnitudes", m, n, microseconds(x, [&](const at::Tensor& t) { magnitudes(t, rows); }), 2);
      line("transpose", m, n, microseconds(x, [&](const at::Tensor& t) { quantise(t, columns); }), 3);
      line("both", m, n, microseconds(x, [&](const at::Tensor& t) { quantise_both(t, rows); }), 6);
      line("one scale", m, n, microseconds(x, [&](const at::Tensor& t) { quantise(t, whole); }), 5);
      if (n == 4096) line("copy by ATen", m, n, microseconds(x, [](const at::Tensor& t) { t.clone(); }), 4);
    }
  }
}

TEST_CASE("SwiGLU to 8 bits", "[.bench]") {
  for (const std::int64_t m : {2048, 8192}) {
    const std::int64_t n = 14336;
    const auto x = inputs_of(m, 2 * n);
    const auto g = at::randn({m, n}, x.front().options());
    line("SwiGLU", m, n, microseconds(x, [](const at::Tensor& t) { quantise_swiglu(t, {}); }), 5);
    line("its gradient", m, n, microseconds(x, [&](const at::Tensor& t) { quantise_swiglu_backward(g, t, {}); }), 8);
  }
}

TEST_CASE("products in 8 bits", "[.bench]") {
  struct Layer {
    const char* name;
    std::int64_t out, in;
  };
  for (const std::int64_t m : {2048, 8192}) {
    for (const Layer& layer :
         {Layer{"qkv", 6144, 4096}, Layer{"proj", 4096, 4096}, Layer{"fc1", 28672, 4096}, Layer{"fc2", 4096, 14336}}) {
      const auto options = at::TensorOptions().device(at::kCUDA).dtype(at::kBFloat16);
      const auto w = at::randn({layer.out, layer.in}, options), x = at::randn({m, layer.in}, options);
      const auto a = quantise(x, {}), b = quantise(w, {});
      const double operations = 2.0 * static_cast<double>(m * layer.out * layer.in);
      const auto print = [&](const char* how, double us) {
        std::printf("%-5s %-8s %6ld rows %8.1f us %7.0f TFLOP/s\n", layer.name, how, static_cast<long>(m), us,
                    operations / us / 1e6);
      };
      print("bf16", microseconds({x}, [&](const at::Tensor& t) { at::mm(t, w.t()); }));
      for (const bool fast : {true, false}) {
        print(fast ? "fast" : "precise", microseconds({a.values}, [&](const at::Tensor& t) {
                at::_scaled_mm(t, b.values.t(), a.scales, b.scales.t(), {}, {}, at::kBFloat16, fast);
              }));
      }
    }
  }
}

TEST_CASE("matrices to 8 bits by block", "[.bench][blockrate]") {
  for (const std::int64_t m : {2048, 8192}) {
    for (const std::int64_t n : {4096, 14336, 28672}) {
      const auto x = inputs_of(m, n);
      line("blocks of rows", m, n, microseconds(x, [](const at::Tensor& t) { quantise_blocks(t); }), 3);
      line("and of the transpose", m, n, microseconds(x, [](const at::Tensor& t) { quantise_blocks_both(t); }), 4);
      line("tiles", m, n, microseconds(x, [](const at::Tensor& t) { quantise_tiles(t, false); }), 3);
      line("tiles, transposed", m, n, microseconds(x, [](const at::Tensor& t) { quantise_tiles(t, true); }), 3);
      line("rows", m, n, microseconds(x, [](const at::Tensor& t) { quantise(t, {}); }), 3);
      if (n != 28672) continue;
      const auto g = at::randn({m, n / 2}, x.front().options());
      line("SwiGLU", m, n / 2, microseconds(x, [](const at::Tensor& t) { quantise_swiglu_blocks(t); }), 5);
      line("its gradient", m, n / 2,
           microseconds(x, [&](const at::Tensor& t) { quantise_swiglu_blocks_backward(g, t); }), 8);
    }
  }
}

}  // namespace quantise_bench
