// Lion against its formula, and on layouts that sum gradients with the same bits. A sign turns where a sum in another
// order has another sign, as the gradient of a key's bias, which is pure rounding; so layouts are compared that cut
// parameters but add the same two numbers.
#include <ATen/ATen.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <cmath>

#include "plugins/optimizers/lion/lion.cc"
#include "support/errors.h"
#include "support/options.h"

namespace {

using optimizer::Slice;
using optimizer::Update;

Lion rule(const testing::OptionValues& values = {}) {
  return Lion(testing::options_of<LionOptions>("optimizer", values));
}

Slice slice_of(const at::Tensor& master) {
  Slice slice;
  slice.lr = 0.01;
  slice.weight_decay = 0.1;
  slice.master = master.clone();
  slice.state = {at::zeros_like(master)};
  return slice;
}

Update update(double scale = 1, bool skip = false) {
  return {at::ones({}, at::kDouble), at::full({}, scale, at::kFloat), at::full({}, skip ? 1.0 : 0.0, at::kFloat)};
}

// Chen et al. 2023, algorithm 2, one element.
struct Reference {
  double x, m = 0;
  void step(double g, double lr, double decay, double beta1, double beta2) {
    const double c = beta1 * m + (1 - beta1) * g;
    x -= lr * (static_cast<double>((c > 0) - (c < 0)) + decay * x);
    m = beta2 * m + (1 - beta2) * g;
  }
};

testing::TrainResult run(int world, const std::string& tables, const std::vector<std::string>& overrides = {}) {
  return testing::train({.world = world,
                         .config = "[optimizer]\nplugin = \"lion\"\nlr = 1e-3\nclip = 0.0\n" + tables,
                         .overrides = overrides});
}

bool same_weights(const testing::TrainResult& a, const testing::TrainResult& b) {
  if (a.weights.size() != b.weights.size()) return false;
  for (const auto& [name, weight] : a.weights) {
    if (!at::equal(weight, b.weights.at(name))) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("Lion follows its formula, with the scale of gradients and decoupled decay") {
  const auto [beta1, beta2] = GENERATE(values<std::pair<double, double>>({{0.9, 0.99}, {0.5, 0.75}}));
  auto lion = rule({{"betas", std::vector<double>{beta1, beta2}}});
  const std::vector<double> start{1, -2, 0.5}, gradients{3, -0.5, 0.125};
  std::vector<Slice> slices{slice_of(at::tensor(start, at::kDouble))};
  std::vector<Reference> reference;
  for (const double x : start) reference.push_back({x});
  for (int step = 0; step < 6; ++step) {
    const double factor = step % 3 == 2 ? -4.0 : 1.0;  // so that directions turn
    slices[0].grad = at::tensor(gradients, at::kDouble) * (2 * factor);
    lion.apply(slices, update(2));
    for (std::size_t i = 0; i < start.size(); ++i) reference[i].step(gradients[i] * factor, 0.01, 0.1, beta1, beta2);
  }
  for (std::size_t i = 0; i < start.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    CHECK(slices[0].master[at].item<double>() == Approx(reference[i].x).epsilon(1e-13));
    CHECK(slices[0].state[0][at].item<double>() == Approx(reference[i].m).epsilon(1e-13));
  }
}

TEST_CASE("identical gradients are the same update bit for bit, however slices cut them, and zeros stay") {
  const auto type = GENERATE(at::kDouble, at::kFloat, at::kBFloat16);
  auto lion = rule();
  auto master = at::linspace(-1, 1, 23, at::kDouble).to(type), gradient = at::cos(master.to(at::kDouble) * 9).to(type);
  master.narrow(0, 20, 3).zero_();  // padding
  gradient.narrow(0, 20, 3).zero_();
  std::vector<Slice> whole{slice_of(master)}, parts;
  for (const auto& [begin, end] : std::vector<std::pair<int, int>>{{0, 7}, {7, 8}, {8, 23}})
    parts.push_back(slice_of(master.slice(0, begin, end)));
  for (const double sign : {1.0, -1.0, 1.0}) {
    whole[0].grad = gradient * sign;
    parts[0].grad = whole[0].grad.slice(0, 0, 7);
    parts[1].grad = whole[0].grad.slice(0, 7, 8);
    parts[2].grad = whole[0].grad.slice(0, 8, 23);
    lion.apply(whole, update(1.5));
    lion.apply(parts, update(1.5));
  }
  CHECK(whole[0].master.scalar_type() == type);
  CHECK(whole[0].state[0].scalar_type() == type);
  CHECK(at::equal(at::cat({parts[0].master, parts[1].master, parts[2].master}), whole[0].master));
  CHECK(at::equal(at::cat({parts[0].state[0], parts[1].state[0], parts[2].state[0]}), whole[0].state[0]));
  CHECK(whole[0].master.narrow(0, 20, 3).count_nonzero().item<std::int64_t>() == 0);
  CHECK_FALSE(at::equal(whole[0].master, master));
}

TEST_CASE("a step that is skipped changes nothing, whatever its gradients and their scale are") {
  auto lion = rule();
  std::vector<Slice> slices{slice_of(at::tensor({1.0, -2.0}, at::kDouble))};
  slices[0].grad = at::tensor({0.5, 0.25}, at::kDouble);
  lion.apply(slices, update());
  const auto master = slices[0].master.clone(), momentum = slices[0].state[0].clone();
  for (const double scale : {1.0, std::nan(""), HUGE_VAL}) {
    slices[0].grad = at::tensor({std::nan(""), HUGE_VAL}, at::kDouble);
    lion.apply(slices, update(scale, true));
    CHECK(at::equal(slices[0].master, master));
    CHECK(at::equal(slices[0].state[0], momentum));
  }
}

TEST_CASE("it learns, and two ranks with the same sums have the same weights bit by bit, on any layout") {
  const auto together = run(2, "", {"run.deterministic=true"});
  CHECK(together.losses.back() < together.losses.front());
  for (const char* layout : {"[strategy.fsdp]\n", "[strategy.zero]\nstage = 1\n",
                             "[strategy.zero]\nstage = 2\noffload_optimizer = \"cpu\"\n"}) {
    INFO(layout);
    const auto mine = run(2, layout, {"run.deterministic=true"});
    CHECK(same_weights(mine, together));
    CHECK(mine.losses == together.losses);
  }
  CHECK_FALSE(same_weights(testing::train({.world = 2}), together));
}

TEST_CASE("faults of betas are said with their line") {
  CHECK_THAT(test::error_of([] {
               rule({{"betas", std::vector<double>{0.9, 1.0}}});
             }),
             Contains("a.toml:2: optimizer.betas is [0.9, 1.0]") && Contains("such as [0.9, 0.99]"));
}

TEST_CASE("a run resumes bit by bit, and not with AdamW") {
  const testing::Setting mine{
      .world = 2, .config = "[optimizer]\nplugin = \"lion\"\n", .overrides = {"run.deterministic=true"}};
  CHECK(testing::differences(testing::train_resumed(mine, 7, mine), testing::train(mine), 0) == "");
  auto other = mine;
  other.config = "";
  CHECK_THROWS_WITH(testing::train_resumed(other, 7, mine), Contains("optimizer.plugin"));
}
