#include "plugins/objectives/kto/kto.h"

#include <ATen/ATen.h>
#include <capstan/testing.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <string>
#include <vector>

#include "support/options.h"

namespace kto_test {

using namespace capstan;

namespace {

struct Expected {
  kto::Weights weights;
  double divergence;
  double loss;
  std::vector<double> rewards;   ///< of answers that are wanted, and of the others
  std::vector<double> gradient;  ///< by answer
};

#include "trl_values.inc"

at::Tensor doubles(const std::vector<double>& values) { return at::tensor(values, at::kDouble); }

at::Tensor number(double value) { return at::full({}, value, at::kDouble); }

kto::Answers answers(const at::Tensor& ratio) { return {ratio, doubles(wanted), at::ones_like(ratio)}; }

kto::Kto make(const testing::OptionValues& values = {}) {
  return kto::Kto(testing::options_of<kto::KtoOptions>("objective", values));
}

config::Value text(const char* value) { return config::Value(std::string(value)); }

std::vector<Diagnostic> faults(const testing::OptionValues& values) {
  Diagnostics diagnostics;
  make(values).check(diagnostics);
  return diagnostics.list();
}

// Tiny samples of two sequences, whose label is 0 for a fifth of them.
testing::Setting setting(const std::string& tables = {}) {
  return {.config =
              "[data]\nsequences = 2\nfields = [\"label int64 sample\"]\n[objective]\nplugin = \"kto\"\n"
              "reference = \"start\"\nbeta = 0.7\n" +
              tables,
          .steps = 3,
          .types = {testing::type<objective::Objective, kto::Kto, kto::KtoOptions>("objective", "kto")}};
}

}  // namespace

TEST_CASE("kto wants the samples that data.labels gives") {  // whose test has the same words
  const auto plan = make().plan();
  CHECK(plan.meaning == "an answer with a label and another prompt's answer");
  CHECK(plan.sequences == 2);
  REQUIRE(plan.fields.size() == 1);
  CHECK(plan.fields[0].name == "label");
}

TEST_CASE("kto's loss, its gradient and the rewards are TRL's") {
  for (const auto& expected : expected_of_trl) {
    INFO(expected.weights.beta);
    const auto ratio = doubles(ratios).set_requires_grad(true);
    const auto found = kto::kto_loss(expected.weights, answers(ratio), number(expected.divergence));
    CHECK(found.loss.item<double>() == Approx(expected.loss).epsilon(1e-12));
    CHECK(found.chosen_reward.item<double>() == Approx(expected.rewards[0]).epsilon(1e-12));
    CHECK(found.rejected_reward.item<double>() == Approx(expected.rewards[1]).epsilon(1e-12));
    const auto gradient = torch::autograd::grad({found.loss}, {ratio})[0];
    CHECK((gradient - doubles(expected.gradient)).abs().max().item<double>() < 1e-12);
    CHECK_FALSE(found.chosen_reward.requires_grad());
  }
}

TEST_CASE("kto: an empty place adds nothing, and far answers stay finite") {
  auto some = answers(doubles({1.5, -0.5}));
  some.wanted = doubles({1, 0});
  some.real = doubles({1, 0});
  const auto found = kto::kto_loss({}, some, number(0.2));
  CHECK(found.loss.item<double>() == Approx(1 - 1 / (1 + std::exp(-0.1 * 1.3))).epsilon(1e-14));
  CHECK(found.rejected_reward.item<double>() == 0);
  some.ratio = doubles({-1e6, 1e6}).set_requires_grad(true);
  some.real = doubles({1, 1});
  const auto far = kto::kto_loss({}, some, number(0));
  CHECK(far.loss.item<double>() == 2);
  CHECK(at::isfinite(torch::autograd::grad({far.loss}, {some.ratio})[0]).all().item<bool>());
}

TEST_CASE("kto's passes: an answer with the gradient, the other one without, both in the reference") {
  using Sequences = std::vector<std::size_t>;
  const auto base = make().plan();
  REQUIRE(base.passes.size() == 3);
  CHECK(base.passes[0].gradient);
  CHECK(base.passes[0].sequences == Sequences{0});
  CHECK(base.passes[1].sequences == Sequences{1});
  CHECK_FALSE(base.passes[1].gradient);
  CHECK(base.passes[1].adapters);
  CHECK(base.passes[2].sequences == Sequences{0, 1});
  CHECK_FALSE(base.passes[2].adapters);
  CHECK(base.models.empty());
  const auto other = make({{"reference", text("models/large")}}).plan();
  CHECK(other.passes[2].model == 0);
  CHECK(other.passes[2].adapters);
}

TEST_CASE("kto: options that cannot be are named") {
  CHECK(faults({}).empty());
  CHECK_THAT(faults({{"reference", text("data")}}).at(0).what, Contains("kto compares with a model"));
  CHECK_THAT(faults({{"desirable_weight", 0.0}, {"undesirable_weight", 0.0}}).at(0).what,
             Contains("nothing is learned"));
}

TEST_CASE("kto teaches the same in micro-batches and on ranks, and its options count", "[train]") {
  CHECK(testing::objective_breaches(make({{"reference", text("start")}}), setting()) == "");
  const auto alone = testing::train(setting());
  auto packed = setting();
  packed.overrides = {"data.packing=true"};
  CHECK(testing::differences(testing::train(packed), alone, 1e-10) == "");
  for (const auto* strategy : {"[strategy.fsdp]\n", "[strategy.tensor_parallel]\nsize = 3\nvocab_parallel = false\n"}) {
    INFO(strategy);
    auto shared = setting(strategy);
    shared.world = 3;
    CHECK(testing::differences(testing::train(shared), alone, 1e-10) == "");
  }
  CHECK(testing::without_effect(setting(), {"objective.beta=0.3", "objective.desirable_weight=2.0",
                                            "objective.undesirable_weight=0.5"}) == "");
}

}  // namespace kto_test
