// capstan/testing.h finds what it is there to find.
#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/strategy.h>
#include <capstan/testing.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include <limits>

namespace train_test {

using namespace capstan;
using testing::differences;
using testing::TrainResult;

namespace {

struct WrongOptions {
  double factor = 1;
  bool freeze = false;
  std::int64_t odd_rank = -1;
  static void describe(config::OptionTable<WrongOptions>& t) {
    t.add("factor", &WrongOptions::factor).doc("all gradients are multiplied by it");
    t.add("freeze", &WrongOptions::freeze).doc("position embeddings are not trained");
    t.add("odd_rank", &WrongOptions::odd_rank).doc("this rank's norms start from 2 instead of 1");
  }
};

class Scale : public strategy::UnitHooks {
 public:
  Scale(nn::Unit& unit, double factor) : unit_(unit), factor_(factor) {}
  void after_backward() override {
    for (const auto& weight : unit_.weights()) {
      if (auto gradient = weight->value().grad(); gradient.defined()) gradient.mul_(factor_);
    }
  }

 private:
  nn::Unit& unit_;
  double factor_;
};

// Right with its defaults, and wrong in many ways.
class Wrong : public strategy::Strategy {
 public:
  explicit Wrong(config::Options<WrongOptions> options) : options_(std::move(options)) {}
  void check(const strategy::Facts& facts, Diagnostics&) const override { rank_ = facts.rank; }
  void structure(std::vector<std::unique_ptr<nn::Unit>>& units) override {
    for (const auto& unit : units) {
      for (const auto& weight : unit->weights()) {
        for (auto& record : weight->records()) {
          if (options_->freeze && record.name == "positions.weight") record.trainable = false;
          const bool is_norm = record.init.kind == layout::Init::Kind::ones;
          if (is_norm && rank_ == options_->odd_rank) record.init = layout::Init::constant(2);
        }
      }
    }
  }
  std::unique_ptr<strategy::UnitHooks> wrap(nn::Unit& unit) override {
    return std::make_unique<Scale>(unit, options_->factor);
  }

 private:
  config::Options<WrongOptions> options_;
  mutable int rank_ = 0;
};

}  // namespace

CAPSTAN_STRATEGY("wrong", "1.0", "right by default", Wrong, WrongOptions)

namespace {

testing::Setting wrong(int world, const std::string& options = {}) {
  return {.world = world,
          .config = "[strategy.wrong]\nenabled = true\n" + options,
          .overrides = {},
          .steps = 6,
          .plugins = {},
          .types = {testing::type<strategy::Strategy, Wrong, WrongOptions>("strategy", "wrong")}};
}

TrainResult alone(std::int64_t steps) { return testing::train({.steps = steps}); }

std::string error_of(const testing::Setting& setting) {
  try {
    testing::train(setting);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

// A run of two steps and one fused group, by hand.
TrainResult by_hand() {
  TrainResult run;
  run.losses = {3, 2};
  run.norms = {1, 1};
  run.gradients = {{"q", at::full({2}, 1.0, at::kDouble)}, {"k", at::full({2}, 1e-17, at::kDouble)}};
  run.weights = {{"q", at::full({2}, 5.0, at::kDouble)}};
  run.fused = {{"q", {"q", "k"}}, {"k", {"q", "k"}}};
  return run;
}

}  // namespace

TEST_CASE("the tiny model learns, on any number of ranks the same") {
  const auto reference = alone(20);
  REQUIRE(reference.losses.size() == 20);
  CHECK(reference.losses.back() < 0.8 * reference.losses.front());
  CHECK(reference.gradients.size() == 32);
  CHECK(reference.weights.size() == 32);
  CHECK(reference.fused.at("blocks.1.k.bias") ==
        std::vector<std::string>{"blocks.1.q.bias", "blocks.1.k.bias", "blocks.1.v.bias"});
  CHECK(differences(alone(20), reference, 0) == "");
  for (const int world : {2, 3}) {
    INFO("world " << world);
    CHECK(differences(testing::train({.world = world, .overrides = {"train.accumulation=2"}}), reference, 1e-10) == "");
  }
}

TEST_CASE("a vocabulary of any size, sequences of one length, and steps that are proportional to gradients") {
  const auto run = [](int world, const std::string& lr, std::int64_t steps) {
    return testing::train(
        {.world = world,
         .config = "[model]\nvocab_size = 7\n[data]\nsamples = 24\nlength = 9\n"
                   "[optimizer]\nplugin = \"descent\"\nschedule = \"constant\"\nwarmup_steps = 0\nclip = 0.0\nlr = " +
                   lr,
         .steps = steps});
  };
  const auto one = run(1, "0.1", 1), two = run(1, "0.3", 1);
  CHECK(one.gradients.at("tokens.weight").size(0) == 7);
  for (const auto& [name, gradient] : one.gradients) {
    INFO(name);
    CHECK(at::allclose(one.weights.at(name) - two.weights.at(name), 0.2 * gradient, 1e-10, 1e-14));
  }
  CHECK(testing::weight_distance(one, one) == 0);
  CHECK(testing::weight_distance(one, two) > 1e-4);
  const auto alone = run(1, "0.1", 8);
  CHECK(alone.losses.back() < alone.losses.front());
  CHECK(differences(run(3, "0.1", 8), alone, 1e-10) == "");
  const testing::Setting uneven{.world = 2, .config = "[model]\nvocab_size = 7\n", .steps = 3};
  CHECK(testing::train(uneven).losses.size() == 3);  // padding is an id of the model's
  CHECK_THAT(error_of({.config = "[data]\nlength = 2\n"}), Contains("data.length leaves no token to predict"));
}

TEST_CASE("a plugin that the test program holds, as a class or with its entry") {
  const auto reference = alone(6);
  CHECK(differences(testing::train(wrong(2)), reference, 1e-10) == "");
  auto linked = wrong(2);
  linked.types = {testing::linked(*capstan_plugin())};
  CHECK(differences(testing::train(linked), reference, 1e-10) == "");
}

namespace {

struct TwiceOptions {
  double factor = 1;
  static void describe(config::OptionTable<TwiceOptions>& t) {
    t.add("factor", &TwiceOptions::factor).spelling("factor").doc("a spelling that is the key");
  }
};

class Twice : public strategy::Strategy {
 public:
  explicit Twice(const config::Options<TwiceOptions>&) {}
};

}  // namespace

TEST_CASE("a linked plugin is checked as the loader checks a file") {
  auto descriptor = *capstan_plugin();
  descriptor.register_types = [](plugin::Registry& registry) {
    plugin::add_type<strategy::Strategy, Twice, TwiceOptions>(registry);
  };
  CHECK_THROWS_WITH(testing::linked(descriptor), Contains("declares the option 'factor' twice"));
  descriptor.register_types = [](plugin::Registry&) {};
  CHECK_THROWS_WITH(testing::linked(descriptor), Contains("registers nothing"));
  CHECK_THROWS_WITH(testing::linked(*capstan_plugin(), "strategy/other.so"),
                    Contains("a plugin's name is that of its file"));
  CHECK_THROWS_WITH(testing::linked(*capstan_plugin(), cat("model/", capstan_plugin()->name, ".so")),
                    Contains("is a strategy plugin, and a model plugin is needed here"));
  descriptor.summary = nullptr;
  CHECK_THROWS_WITH(testing::linked(descriptor), Contains("a descriptor with an empty field"));
}

TEST_CASE("a factor in all gradients is found, though losses hardly tell") {
  const auto text = differences(testing::train(wrong(1, "factor = 2.0\n")), alone(6), 1e-10);
  CHECK_THAT(text, Contains("gradient of blocks.0.up.weight: apart by ") && Contains("gradient norm of step 0: "));
}

TEST_CASE("a record that is not trained is named") {
  const auto run = testing::train(wrong(1, "freeze = true\n"));
  CHECK_THAT(differences(run, alone(6), 1e-10), Contains("gradient of positions.weight: the run has none\n"));
  CHECK_THAT(differences(alone(6), run, 1e-10), Contains("gradient of positions.weight: the reference has none\n"));
}

TEST_CASE("ranks whose copies differ are found") {
  const auto run = testing::train(wrong(2, "odd_rank = 1\n"));
  CHECK(run.disagreements.at("weight norm.weight") > 0.5);
  CHECK_THAT(differences(run, alone(6), 1e-10), Contains("weight norm.weight: ranks hold copies that are "));
}

TEST_CASE("a plugin by its file, found by its name, and two that claim the same override point") {
  const std::string owner = CAPSTAN_BINARY_DIR "/tests/run_fixtures/strategy/owner.so";
  CHECK(differences(testing::train(
                        {.world = 2, .config = "[strategy.owner]\nenabled = true\n", .steps = 3, .plugins = {owner}}),
                    alone(3), 1e-10) == "");
  const auto both =
      error_of({.config = "[strategy.owner]\nenabled = true\n[strategy.fsdp]\nenabled = true\n", .plugins = {owner}});
  CHECK_THAT(both, Contains("both claim parameter storage") && Contains("'owner'") && Contains("'fsdp'"));
}

TEST_CASE("a setting that is refused says why") {
  CHECK_THAT(error_of({.config = "[strategy.wrong]\nfactr = 1\n", .types = wrong(1).types}),
             Contains("test.toml:3: unknown option strategy.wrong.factr\n    fix: did you mean 'factor'?"));
  CHECK_THAT(error_of({.overrides = {"train.max_step=3"}}), Contains("unknown option train.max_step"));
  CHECK_THAT(error_of({.plugins = {"/nowhere/mine.so"}}),
             Contains("/nowhere/mine.so: the plugin's file does not exist\n    fix: build it, or correct the path"));
  CHECK_THAT(error_of({.types = {wrong(1).types[0], wrong(1).types[0]}}),
             Contains("registers more than one type as strategy plugin 'wrong'"));
}

TEST_CASE("differences by hand: scale of the fused group, NaN, lengths, shapes, exactness") {
  const auto reference = by_hand();
  CHECK(differences(by_hand(), reference, 0) == "");
  auto run = by_hand();
  run.gradients.at("k").fill_(-1e-17);  // rounding, compared to q's 1
  CHECK(differences(run, reference, 1e-10) == "");
  CHECK(differences(run, reference, 0) == "gradient of k: apart by 2e-17 where the largest of its group is 1\n");
  run = by_hand();
  run.gradients.at("q")[1] = std::numeric_limits<double>::quiet_NaN();
  run.losses[1] = std::numeric_limits<double>::quiet_NaN();
  CHECK_THAT(differences(run, reference, 1e-10),
             Contains("gradient of q: some elements are not finite") && Contains("loss of step 1: nan, not 2"));
  run = by_hand();
  run.losses.pop_back();
  CHECK(differences(run, reference, 1e-10) == "loss: 1 step, the reference has 2\n");
  run = by_hand();
  run.gradients["q"] = at::full({3}, 1.0, at::kDouble);
  CHECK(differences(run, reference, 1e-10) == "gradient of q: has shape [3], not [2]\n");
  run = by_hand();
  run.weights["q"] = at::full({2}, 5.1, at::kDouble);
  CHECK_THAT(differences(run, reference, 1e-10), Contains("weight q: apart by 0.0"));
  CHECK_THAT(differences(run, reference, 0), Contains("weight q: apart by 0.0"));
  run.weights["q"] = at::full({2}, 5 + 1e-7, at::kDouble);  // what AdamW may make of rounding
  CHECK(differences(run, reference, 1e-10) == "");
}

TEST_CASE("an option that changes nothing is named") {
  auto setting = wrong(1);
  setting.steps = 2;
  CHECK(testing::without_effect(setting, {"strategy.wrong.odd_rank=0", "strategy.wrong.freeze=true"}) == "");
  CHECK(testing::without_effect(setting, {"strategy.wrong.odd_rank=5", "strategy.wrong.freeze=true"}) ==
        "strategy.wrong.odd_rank=5 changes no loss of 2 steps\n");
}

}  // namespace train_test
