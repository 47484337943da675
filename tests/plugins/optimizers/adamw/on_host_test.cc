#include "plugins/libraries/adamw/on_host.h"

#include <ATen/ATen.h>
#include <ATen/Version.h>
#include <capstan_catch.h>

#include <cmath>
#include <limits>
#include <string>

namespace on_host_test {

using namespace capstan;

namespace {

struct Tensors {
  at::Tensor master, average, square, grad;
  Tensors part(std::int64_t begin, std::int64_t n) const {
    return {master.narrow(0, begin, n), average.narrow(0, begin, n), square.narrow(0, begin, n),
            grad.narrow(0, begin, n)};
  }
  Tensors clone() const { return {master.clone(), average.clone(), square.clone(), grad.clone()}; }
};

Tensors random(std::int64_t n, c10::ScalarType grad = at::kFloat) {
  at::manual_seed(11);
  return {at::randn({n}), at::randn({n}) * 0.01, at::rand({n}) * 1e-3, at::randn({n}).to(grad)};
}

void update(const Tensors& t, const adamw::Step& step, const at::Tensor& copy = {}) {
  adamw::update_on_host(t.master, t.average, t.square, t.grad, copy, step);
}

bool same(const Tensors& a, const Tensors& b) {
  return at::equal(a.master, b.master) && at::equal(a.average, b.average) && at::equal(a.square, b.square);
}

constexpr adamw::Step usual{1e-2, 0.9, 0.999, 0.1, 1e-8, 3, 2.5F};

}  // namespace

TEST_CASE("AdamW in host memory follows its formula") {
  const auto beta1 = GENERATE(0.9, 0.3);  // from both ends of the interpolation
  auto step = usual;
  step.beta1 = beta1;
  const auto t = random(1500);
  const auto before = t.clone();
  update(t, step);
  CHECK(at::equal(t.grad, before.grad));
  const auto g = before.grad.to(at::kDouble) / step.grad_scale;
  const auto m = before.average.to(at::kDouble) * beta1 + g * (1 - beta1);
  const auto v = before.square.to(at::kDouble) * step.beta2 + g * g * (1 - step.beta2);
  const auto way = m / (1 - std::pow(beta1, 3)) / ((v / (1 - std::pow(step.beta2, 3))).sqrt() + step.eps);
  const auto x = before.master.to(at::kDouble) * (1 - step.lr * step.decay) - way * step.lr;
  // Some ten roundings, by 2^-24 each, of values that are at most 5.
  CHECK((t.average - m).abs().max().item<double>() < 50.0 / (1 << 24));
  CHECK((t.square - v).abs().max().item<double>() < 50.0 / (1 << 24));
  CHECK((t.master - x).abs().max().item<double>() < 50.0 / (1 << 24));
}

TEST_CASE("AdamW in host memory is bit-equal to ATen's on whole vectors") {
  const auto capability = at::get_cpu_capability();
  if (capability != "AVX2" && capability != "AVX512") return;  // without them ATen rounds twice where it fuses
  const auto beta1 = GENERATE(0.9, 0.3);
  const auto decay = GENERATE(0.0, 0.1);
  auto step = usual;
  step.beta1 = beta1;
  step.decay = decay;
  const auto ours = random(std::int64_t{64} * 333);
  const auto theirs = ours.clone();
  update(ours, step);
  at::_fused_adamw_({theirs.master}, {theirs.grad}, {theirs.average}, {theirs.square}, {}, {at::full({}, 3.0F)},
                    step.lr, step.beta1, step.beta2, step.decay, step.eps, false, false, at::full({}, 2.5F),
                    at::zeros({}));
  CHECK(same(ours, theirs));
}

TEST_CASE("AdamW in host memory does to each element the same, wherever it stands") {
  const std::int64_t n = 40'000;  // more than one thread's share
  const auto whole = random(n);
  const auto parts = whole.clone();
  update(whole, usual);
  std::int64_t begin = 0;
  for (const std::int64_t size : {1, 63, 1023, 1025, 0, 20'000}) {
    update(parts.part(begin, size), usual);
    begin += size;
  }
  update(parts.part(begin, n - begin), usual);
  CHECK(same(whole, parts));
}

TEST_CASE("AdamW reads 16-bit gradients, and its copy is the master rounded") {
  const auto narrow = GENERATE(at::kBFloat16, at::kHalf);
  const auto offset = GENERATE(0, 1);  // the second: not where vectors may be stored
  const std::int64_t n = 3001;
  const auto t = random(n, narrow);
  const auto wide = t.clone();
  t.master[7] = wide.master[7] = std::numeric_limits<float>::infinity();
  t.master[8] = wide.master[8] = std::nan("");
  t.master[9] = wide.master[9] = 1e-41F;
  const auto copy = at::zeros({n + 2}, narrow);
  update(t, usual, copy.narrow(0, offset, n));
  update({wide.master, wide.average, wide.square, wide.grad.to(at::kFloat)}, usual);
  const auto finite = [&](const at::Tensor& x) { return x.nan_to_num(); };
  CHECK(at::equal(finite(t.master), finite(wide.master)));
  CHECK(at::equal(t.square, wide.square));
  CHECK(at::equal(finite(copy.narrow(0, offset, n)), finite(t.master.to(narrow))));
  CHECK(std::isnan(copy[8 + offset].item<float>()));
  CHECK(copy[n + offset].item<float>() == 0);
}

}  // namespace on_host_test
