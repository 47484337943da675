#include <ATen/ATen.h>
#include <capstan/optimizer.h>
#include <capstan/strategy.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

using namespace capstan;
using capstan::testing::weight_distance;

namespace {

constexpr double inner_lr = 0.05;
constexpr double outer_lr = 0.7;
constexpr double momentum = 0.9;
// Keys of [optimizer], which is open where setting() adds tables.
const std::string nesterov = "plugin = \"nesterov\"\n";
const std::string descent = "plugin = \"descent\"\n";

struct NoOptions {
  static void describe(config::OptionTable<NoOptions>&) {}
};

// Nesterov's descent (Sutskever et al. 2013, as PyTorch's SGD has it) with the learning rates of both loops.
class Nesterov : public optimizer::Rule {
 public:
  explicit Nesterov(const config::Options<NoOptions>&) {}
  std::vector<optimizer::StateSpec> states(const layout::Param&) const override { return {{"velocity"}}; }
  void apply(std::vector<optimizer::Slice>& slices, const optimizer::Update&) override {
    for (auto& slice : slices) {
      const auto gradient = slice.grad * slice.lr;
      slice.state[0].mul_(momentum).add_(gradient);
      slice.master.sub_(gradient + slice.state[0] * momentum, outer_lr);
    }
  }
};

testing::Setting setting(int world, const std::string& tables) {
  return {.world = world,
          .config = "[data]\nsamples = 24\nlength = 9\n[optimizer]\nlr = " + std::to_string(inner_lr) +
                    "\nschedule = \"constant\"\nwarmup_steps = 0\nclip = 0.0\n" + tables,
          .overrides = {"run.deterministic=true"},
          .types = {testing::linked(*capstan_plugin()),
                    testing::type<optimizer::Rule, Nesterov, NoOptions>("optimizer", "nesterov")}};
}

testing::TrainResult run(int world, const std::string& tables) { return testing::train(setting(world, tables)); }

double distance(const std::map<std::string, at::Tensor>& a, const std::map<std::string, at::Tensor>& b) {
  double most = 0;
  for (const auto& [name, tensor] : a) most = std::max(most, (tensor - b.at(name)).abs().max().item<double>());
  return most;
}

// Gradients are each rank's own: whose gradients the test gets is chance.
std::string apart(testing::TrainResult mine, const testing::TrainResult& other) {
  mine.disagreements.clear();
  mine.gradients = other.gradients;
  return testing::differences(mine, other, 0) + (distance(mine.evaluated, other.evaluated) == 0 ? "" : "anchors\n");
}

}  // namespace

// With H = 1 a rank's way from the anchor is its gradient times the learning rate, so that the outer step is Nesterov's
// descent on the mean over all. 20 steps of some ten roundings of 1e-16 of parameters below 2, amplified by momentum's
// 1 / (1 - 0.9): far below 1e-12. One wrong sign, lr or momentum is 1e-2 or more.
TEST_CASE("an outer step after every step of descent is Nesterov's descent") {
  const auto reference = run(1, nesterov);
  CHECK(weight_distance(reference, run(1, descent)) > 1e-2);
  for (const int world : {1, 2, 3, 4}) {
    INFO(world << " ranks");
    const auto mine = run(world, descent + "[strategy.diloco]\nevery = 1\n");
    CHECK(weight_distance(mine, reference) < 1e-12);
    CHECK(distance(mine.evaluated, mine.weights) == 0);
    CHECK(std::abs(mine.losses.back() - reference.losses.back()) < 1e-12);
  }
}

TEST_CASE("it learns, ranks end on one anchor, and rarer or overlapping exchanges make another run") {
  const auto often = run(2, "[strategy.diloco]\nevery = 1\n");
  const auto seldom = run(2, "[strategy.diloco]\nevery = 6\n");
  const auto overlapping = run(2, "[strategy.diloco]\nevery = 6\noverlap = 2\n");
  for (const auto* mine : {&often, &seldom, &overlapping}) {
    CHECK(mine->losses.back() < mine->losses.front());
    for (const auto& [what, difference] : mine->disagreements) CHECK(what.starts_with("gradient"));
  }
  CHECK(weight_distance(seldom, often) > 1e-6);
  CHECK(weight_distance(overlapping, seldom) > 1e-6);
}

// Exchanges begin after steps 6, 12, 18 and, overlapping, end two steps later: 7 is in the middle of one.
TEST_CASE("a run resumes bit by bit, also with an exchange under way") {
  for (const char* overlap : {"0", "2"}) {
    const auto mine = setting(3, std::string("[strategy.diloco]\nevery = 6\noverlap = ") + overlap + "\n");
    const auto straight = testing::train(mine);
    for (const std::int64_t done : {3, 6, 7, 8}) {
      INFO("overlap " << overlap << ", after step " << done);
      CHECK(apart(testing::train_resumed(mine, done, mine), straight) == "");
    }
  }
}

// After step 6 all have the anchor, so that other ranks can continue from there: with momentum and anchor, they are
// equal to ranks that were never fewer, but for the order of sums.
TEST_CASE("anchor and momentum outlive a change of the number of ranks") {
  const std::string tables = descent + "[strategy.diloco]\nevery = 1\n";
  const auto straight = run(4, tables);
  const auto resumed = testing::train_resumed(setting(2, tables), 6, setting(4, tables));
  CHECK(weight_distance(resumed, straight) < 1e-12);
}

TEST_CASE("while ranks are apart, evaluation sees the anchor that they had last") {
  auto mine = setting(2, descent + "[strategy.diloco]\nevery = 6\n");
  mine.stop_after = 6;
  const auto together = testing::train(mine);
  CHECK(distance(together.evaluated, together.weights) == 0);
  mine.stop_after = 8;
  const auto later = testing::train(mine);
  CHECK(distance(later.evaluated, together.evaluated) == 0);
  CHECK(distance(later.weights, together.weights) > 1e-6);
}

TEST_CASE("an exchange must end before the next one begins") {
  CHECK_THROWS_WITH(run(2, "[strategy.diloco]\nevery = 2\noverlap = 2\n"), Contains("overlap is not below every"));
}

TEST_CASE("it is refused together with a strategy that cuts parameters, both named") {
  CHECK_THROWS_WITH(run(2, "[strategy.diloco]\n[strategy.fsdp]\n"),
                    Contains("summed gradients on dp") && Contains("diloco") && Contains("fsdp"));
}
