// The clamped gate with biases on a GPU against CPU's.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <capstan_catch.h>

#include <optional>

namespace {

using Maybe = std::optional<at::Tensor>;

at::Tensor forward(const at::Tensor& x, const Maybe& bias, const Maybe& group) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("capstan::clamped_swiglu", "")
                             .typed<at::Tensor(const at::Tensor&, const Maybe&, const Maybe&, double, double)>();
  return op.call(x, bias, group, 3, 1.702);
}

at::Tensor backward(const at::Tensor& gradient, const at::Tensor& x, const Maybe& bias, const Maybe& group) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("capstan::clamped_swiglu_backward", "")
          .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const Maybe&, const Maybe&, double, double)>();
  return op.call(gradient, x, bias, group, 3, 1.702);
}

at::Tensor waves(at::IntArrayRef shape, double step) {
  return at::arange(1, c10::multiply_integers(shape) + 1, at::kDouble).mul(step).sin().mul(4).view(shape);
}

}  // namespace

TEST_CASE("the clamped gate on a GPU, with and without biases, is the CPU's", "[gpu]") {
  const auto group = at::arange(70, at::kLong).remainder(3);
  // The GPU's float32 exponential is an approximation; 16-bit results may be rounded to a neighbour by it.
  for (const auto& [type, tolerance] : {std::pair{at::kDouble, 1e-14}, {at::kFloat, 2e-6}, {at::kBFloat16, 1e-2}}) {
    for (const std::int64_t columns : {8, 13, 2880}) {
      const auto x = waves({70, 2 * columns}, 0.7).to(type), bias = waves({3, 2 * columns}, 0.3).to(type);
      const auto g = waves({70, columns}, 0.1).to(type);
      for (const bool has_bias : {false, true}) {
        INFO(type << " " << columns << " " << has_bias);
        const Maybe b = has_bias ? Maybe(bias) : std::nullopt, e = has_bias ? Maybe(group) : std::nullopt;
        const Maybe b_there = has_bias ? Maybe(bias.cuda()) : std::nullopt,
                    e_there = has_bias ? Maybe(group.cuda()) : std::nullopt;
        CHECK(at::allclose(forward(x.cuda(), b_there, e_there).cpu(), forward(x, b, e), tolerance, tolerance));
        CHECK(at::allclose(backward(g.cuda(), x.cuda(), b_there, e_there).cpu(), backward(g, x, b, e), tolerance,
                           4 * tolerance));
      }
    }
  }
}
