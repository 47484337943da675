#include <ATen/ATen.h>
#include <capstan/adamw/adamw.h>
#include <capstan_catch.h>

#include <cmath>

#include "step/updates.h"

namespace rule_test {

using namespace capstan;

namespace {

optimizer::Slice slice_of(double lr, double decay, const at::Tensor& master, const at::Tensor& grad) {
  optimizer::Slice slice;
  slice.lr = lr;
  slice.weight_decay = decay;
  slice.master = master;
  slice.grad = grad;
  slice.state = {at::zeros_like(master), at::zeros_like(master)};
  return slice;
}

at::Tensor doubles(const std::vector<double>& values) { return at::tensor(values, at::kDouble); }

step::Updates make_updates(const setup::OptimizerOptions& options) { return {options, {}, c10::Device(c10::kCPU)}; }

// Loshchilov & Hutter 2019, algorithm 2, one element.
struct Reference {
  double m = 0, v = 0, x;
  int t = 0;
  void step(double g, double lr, double decay) {
    const optimizer::AdamWOptions o;
    ++t;
    x -= lr * decay * x;
    m = o.betas[0] * m + (1 - o.betas[0]) * g;
    v = o.betas[1] * v + (1 - o.betas[1]) * g * g;
    x -= lr * (m / (1 - std::pow(o.betas[0], t))) / (std::sqrt(v / (1 - std::pow(o.betas[1], t))) + o.eps);
  }
};

}  // namespace

TEST_CASE("AdamW follows its formula, with each slice's learning rate and decay, and clips by the global norm") {
  setup::OptimizerOptions options;
  options.clip = 1.0;
  const std::vector<double> rates{0.01, 0.003};
  const std::vector<double> decays{0.1, 0};
  std::vector<optimizer::Slice> slices{slice_of(rates[0], decays[0], doubles({1, -2, 3}), {}),
                                       slice_of(rates[1], decays[1], doubles({0.5, 0, -1}), {})};
  std::vector<Reference> reference;
  for (const auto& slice : slices) {
    for (int i = 0; i < 3; ++i) reference.push_back({0, 0, slice.master[i].item<double>()});
  }
  const auto rule = optimizer::adamw({});
  auto updates = make_updates(options);
  const std::vector<double> gradients{3, 0, -1, 2, 0.25, -0.5};
  double square = 0;
  for (const double g : gradients) square += g * g;
  for (int step = 0; step < 5; ++step) {
    slices[0].grad = doubles({gradients[0], gradients[1], gradients[2]});
    slices[1].grad = doubles({gradients[3], gradients[4], gradients[5]});
    rule->apply(slices, updates.next(doubles({square, 1})));
    // The kernel reads the scale as float32: that much of the gradient is rounded.
    const double scale = static_cast<float>((std::sqrt(square) + 1e-6) / options.clip);
    for (std::size_t i = 0; i < reference.size(); ++i)
      reference[i].step(gradients[i] / scale, rates[i / 3], decays[i / 3]);
  }
  for (std::size_t i = 0; i < reference.size(); ++i) {
    CHECK(slices[i / 3].master[static_cast<std::int64_t>(i % 3)].item<double>() ==
          Approx(reference[i].x).epsilon(1e-12));
  }
}

TEST_CASE("a norm or a loss that is not finite changes nothing, not even the step count") {
  // The second: gradients may be finite where the loss is not.
  const auto bad = GENERATE(std::vector<double>{std::nan(""), 1}, std::vector<double>{9, HUGE_VAL});
  const auto run = [&](bool with_bad_step) {
    const auto rule = optimizer::adamw({});
    auto updates = make_updates({});
    std::vector<optimizer::Slice> slices{slice_of(0.1, 0.01, doubles({1, -2, 3}), {})};
    for (int step = 0; step < 3; ++step) {
      if (with_bad_step && step == 1) {
        slices[0].grad = doubles({std::isnan(bad[0]) ? std::nan("") : 3, 0, 0});
        rule->apply(slices, updates.next(doubles(bad)));
      }
      slices[0].grad = doubles({1, 2, -3});
      rule->apply(slices, updates.next(doubles({14, 1})));
    }
    return slices[0].master;
  };
  CHECK(at::equal(run(true), run(false)));
}

TEST_CASE("AdamW on bfloat16: masters, gradients and state may all be, and follow the formula to their rounding") {
  const auto bf16 = [](const at::Tensor& t) { return t.to(at::kBFloat16); };
  setup::OptimizerOptions options;
  options.clip = 0;
  std::vector<optimizer::Slice> slices{slice_of(0.1, 0.01, bf16(doubles({1, -2, 3})), {})};
  std::vector<Reference> reference{{0, 0, 1}, {0, 0, -2}, {0, 0, 3}};
  const auto rule = optimizer::adamw({});
  auto updates = make_updates(options);
  const std::vector<double> gradients{0.5, 0.25, -0.125};
  for (int step = 0; step < 4; ++step) {
    slices[0].grad = bf16(doubles(gradients));
    rule->apply(slices, updates.next(doubles({1, 1})));
    for (std::size_t i = 0; i < 3; ++i) reference[i].step(gradients[i], 0.1, 0.01);
  }
  CHECK(slices[0].master.scalar_type() == at::kBFloat16);
  CHECK(slices[0].state[1].scalar_type() == at::kBFloat16);
  for (std::size_t i = 0; i < 3; ++i) {
    // Four updates, each rounded to 8 bits (half of 2^-7), and moments that are too: 4 * 2^-8, doubled for those.
    CHECK(slices[0].master[static_cast<std::int64_t>(i)].item<float>() == Approx(reference[i].x).epsilon(8.0 / 256));
  }
}

TEST_CASE("AdamW reads narrow gradients and writes the copy, on every dtype of masters") {
  const auto dtype = GENERATE(at::kFloat, at::kDouble);
  const auto run = [&](bool fused, bool skips) {
    auto slice = slice_of(0.1, 0.01, doubles({1, -2, 3}).to(dtype), doubles({0.5, 0.25, -1}).to(dtype));
    if (fused) {
      slice.grad = slice.grad.to(at::kBFloat16);
      slice.copy = at::zeros({3}, at::kBFloat16);
    }
    const auto rule = optimizer::adamw({});
    CHECK(rule->is_fused());
    auto updates = make_updates({});
    std::vector<optimizer::Slice> slices{slice};
    rule->apply(slices, updates.next(doubles({skips ? std::nan("") : 1.3125, 1})));
    return slices[0];
  };
  const auto plain = run(false, false);
  const auto fused = run(true, false);
  CHECK(at::equal(fused.master, plain.master));
  CHECK(at::equal(fused.copy, plain.master.to(at::kBFloat16)));
  CHECK(at::equal(run(true, true).master, doubles({1, -2, 3}).to(dtype)));
}

}  // namespace rule_test
