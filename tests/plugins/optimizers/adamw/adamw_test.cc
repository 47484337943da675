// AdamW as a plugin: its options reach the rule, and [optimizer] means it where it names none.
#include <ATen/ATen.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <cmath>

#include "plugins/optimizers/adamw/adamw.cc"
#include "support/errors.h"
#include "support/options.h"

namespace adamw_test {

namespace {

AdamW rule(const testing::OptionValues& values) {
  return AdamW(testing::options_of<AdamWOptions>("optimizer", values));
}

// Loshchilov & Hutter 2019, algorithm 2, one element.
struct Reference {
  double beta1, beta2, eps, x;
  double m = 0, v = 0;
  int t = 0;
  void step(double g, double lr, double decay) {
    ++t;
    x -= lr * decay * x;
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    x -= lr * (m / (1 - std::pow(beta1, t))) / (std::sqrt(v / (1 - std::pow(beta2, t))) + eps);
  }
};

std::string refusal(const std::string& tables) {
  return test::error_of([&] { testing::train({.config = tables, .steps = 1}); });
}

}  // namespace

TEST_CASE("the plugin follows AdamW's formula with its options, and each slice's learning rate and decay") {
  auto adamw = rule({{"betas", std::vector<double>{0.8, 0.95}}, {"eps", 1e-3}});
  const nn::Weight weight({nn::record("a.weight", {2}, layout::Init::zeros(), true)});
  std::vector<optimizer::Slice> slices(2);
  std::vector<Reference> reference;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    auto& slice = slices[i];
    slice.weight = &weight;
    slice.lr = i == 0 ? 0.1 : 0.05;
    slice.weight_decay = i == 0 ? 0.0 : 0.3;
    slice.master = at::tensor({1.0, -2.0}, at::kDouble);
    slice.state = {at::zeros_like(slice.master), at::zeros_like(slice.master)};
    for (const double x : {1.0, -2.0}) reference.push_back({0.8, 0.95, 1e-3, x});
  }
  const std::vector<double> gradients{3, -0.5, 0.25, 0};
  for (int step = 1; step <= 4; ++step) {
    optimizer::Update update{at::full({}, step, at::kDouble), at::full({}, 2.0, at::kFloat), at::zeros({}, at::kFloat)};
    for (std::size_t i = 0; i < reference.size(); ++i)
      reference[i].step(gradients[i] * step, slices[i / 2].lr, slices[i / 2].weight_decay);
    slices[0].grad = at::tensor({gradients[0], gradients[1]}, at::kDouble) * (2.0 * step);
    slices[1].grad = at::tensor({gradients[2], gradients[3]}, at::kDouble) * (2.0 * step);
    adamw.apply(slices, update);
  }
  for (std::size_t i = 0; i < reference.size(); ++i) {
    CHECK(slices[i / 2].master[static_cast<std::int64_t>(i % 2)].item<double>() ==
          Approx(reference[i].x).epsilon(1e-12));
  }
}

TEST_CASE("two averages of the masters' dtype, and copies in the same pass") {
  const auto adamw = rule({});
  const auto states = adamw.states(nn::record("a.weight", {2, 3}, layout::Init::zeros(), true));
  REQUIRE(states.size() == 2);
  CHECK(states[0].name == "exp_avg");
  CHECK(states[1].name == "exp_avg_sq");
  CHECK_FALSE(states[0].dtype.has_value());
  CHECK(states[1].block == 1);
  CHECK(adamw.is_fused());
  CHECK(adamw.grain() == optimizer::Grain::element);
}

TEST_CASE("a configuration that names no optimizer has AdamW with its defaults") {
  const auto unnamed = testing::train({});
  const auto named = testing::train({.config = "[optimizer]\nplugin = \"adamw\"\nbetas = [0.9, 0.999]\neps = 1e-8\n"});
  CHECK(testing::differences(named, unnamed, 0) == "");
  CHECK(testing::weight_distance(testing::train({.config = "[optimizer]\nbetas = [0.5, 0.999]\n"}), unnamed) > 1e-6);
  CHECK(testing::weight_distance(testing::train({.config = "[optimizer]\neps = 0.1\n"}), unnamed) > 1e-6);
}

TEST_CASE("AdamW with options of its own learns the same on any layout") {
  const std::string options = "[optimizer]\nbetas = [0.8, 0.95]\neps = 1e-3\nweight_decay = 0.1\n";
  const auto alone = testing::train({.config = options});
  for (const auto& [world, sharding] : std::vector<std::pair<int, std::string>>{
           {3, "[strategy.fsdp]\n"}, {2, "[strategy.zero]\nstage = 2\noffload_optimizer = \"cpu\"\n"}}) {
    INFO(world << " " << sharding);
    CHECK(testing::differences(testing::train({.world = world, .config = options + sharding}), alone, 1e-10) == "");
  }
}

TEST_CASE("faults of its options are said with their names, in [optimizer] and in a group") {
  for (const auto& [betas, shown] :
       std::vector<std::pair<std::vector<double>, std::string>>{{{0.9}, "[0.9]"},
                                                                {{0.9, 1.0}, "[0.9, 1.0]"},
                                                                {{-0.1, 0.9}, "[-0.1, 0.9]"},
                                                                {{0.9, 0.99, 0.999}, "[0.9, 0.99, 0.999]"}}) {
    CHECK_THAT(test::error_of([&, &given = betas] {
                 rule({{"betas", given}});
               }),
               Contains("a.toml:2: optimizer.betas is " + shown) &&
                   Contains("give two numbers in [0, 1), such as [0.9, 0.999]"));
  }
  CHECK_THAT(refusal("[optimizer]\nbetas = [0.9, 1.5]\n"), Contains("optimizer.betas is [0.9, 1.5]"));
  CHECK_THAT(refusal("[optimizer]\neps = 0.0\n"), Contains("optimizer.eps is 0"));
  CHECK_THAT(refusal("[optimizer]\nbeta = [0.9, 0.95]\n"), Contains("optimizer.beta") && Contains("betas"));
  CHECK_THAT(refusal("[[optimizer.groups]]\nrecords = [\"*.bias\"]\nplugin = \"adamw\"\nbetas = [2.0, 0.9]\n"),
             Contains("optimizer.groups.1.betas is [2.0, 0.9]"));
}

TEST_CASE("matrices decay, and vectors only where all parameters do") {
  const auto run = [](const std::string& decay) {
    return capstan::testing::train(
        {.config = "[optimizer]\nplugin = \"adamw\"\nlr = 1e-2\nclip = 0.0\nwarmup_steps = 0\n" + decay, .steps = 1});
  };
  const auto none = run("weight_decay = 0.0\n"), usual = run("weight_decay = 0.5\n");
  const auto all = run("weight_decay = 0.5\ndecay = \"all\"\n");
  int matrices = 0, vectors = 0;
  for (const auto& [name, weight] : none.weights) {
    INFO(name);
    const bool decays = !at::equal(usual.weights.at(name), weight);
    if (weight.dim() == 1) CHECK_FALSE(decays);
    matrices += decays ? 1 : 0;
    vectors += weight.dim() == 1 && !at::equal(all.weights.at(name), weight) ? 1 : 0;
  }
  CHECK(matrices > 0);
  CHECK(vectors > 0);
}

}  // namespace adamw_test
