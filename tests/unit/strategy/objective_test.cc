#include "strategy/objective.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan_catch.h>

#include <memory>
#include <string>
#include <utility>

#include "support/given_objective.h"

namespace objective_test {

using namespace capstan;
using testing::Given;
using testing::reference_and_policy;

namespace {

std::string fault(objective::Plan plan) {
  try {
    const strategy::Objective made("mine", std::make_shared<Given>(std::move(plan)));
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("an objective's plan has one pass with a gradient, a term, and counts for all of them") {
  CHECK(fault(reference_and_policy()).empty());
  auto wrong = reference_and_policy();
  wrong.passes[0].gradient = true;
  CHECK_THAT(fault(wrong), Contains("2 passes with a gradient") && Contains("'mine'"));
  wrong = reference_and_policy();
  wrong.passes[1].adapters = false;
  CHECK_THAT(fault(wrong), Contains("trains pass 'policy' without adapters"));
  wrong = reference_and_policy();
  wrong.passes[0].output = nn::HeadOutput::last_logits;
  CHECK_THAT(fault(wrong), Contains("logits of pass 'reference'"));
  wrong = reference_and_policy();
  wrong.terms.clear();
  CHECK_THAT(fault(wrong), Contains("no term"));
  wrong = reference_and_policy();
  wrong.terms[1].count = 2;
  CHECK_THAT(fault(wrong), Contains("a term with count 2 of 2"));
  wrong = reference_and_policy();
  wrong.figures = {{"accuracy", 7}};
  CHECK_THAT(fault(wrong), Contains("a figure with count 7 of 2"));
  wrong = reference_and_policy();
  wrong.baselines = {{"distance", 2}};
  CHECK_THAT(fault(wrong), Contains("a baseline with count 2 of 2"));
  wrong.baselines = {{"distance", 0}};
  CHECK(fault(wrong).empty());
  wrong.models = {{"teacher", "teacher"}};
  wrong.passes.push_back({.name = "theirs", .output = nn::HeadOutput::states, .gradient = false, .model = 0});
  CHECK_THAT(fault(wrong), Contains("has baselines, and wants states of pass 'theirs'"));
}

TEST_CASE("a pass goes over sequences that a sample has, ascending, and gives sums over each of them") {
  auto plan = reference_and_policy();
  plan.sequences = 3;
  plan.passes[0].sequences = {0, 2};
  plan.passes[1].sequences = {1};
  CHECK(fault(plan).empty());
  const strategy::Objective made("mine", std::make_shared<Given>(plan));
  CHECK(made.choices() == std::vector<std::vector<std::size_t>>{{1}, {0, 2}});  // that of the policy, which is trained
  CHECK(made.choice_of(0) == 1);
  CHECK(made.choice_of(1) == 0);
  const strategy::Objective plain("mine", std::make_shared<Given>(reference_and_policy()));
  CHECK(plain.choices() == std::vector<std::vector<std::size_t>>{{}});
  for (const auto& wrong : std::vector<std::vector<std::size_t>>{{1, 1}, {2, 0}, {3}}) {
    plan.passes[0].sequences = wrong;
    CHECK_THAT(fault(plan), Contains("lets pass 'reference' go over sequences that do not ascend within a sample's 3"));
  }
  plan.passes[0].sequences = {0};
  plan.passes[0].output = nn::HeadOutput::values;
  CHECK_THAT(fault(plan), Contains("wants states or values of some sequences, of pass 'reference'"));
}

TEST_CASE("a pass of another model has no gradient, and only such a pass gives states") {
  using nn::HeadOutput;
  objective::Plan good;
  good.models = {{"teacher", "teacher"}};
  good.passes = {{.name = "student", .output = HeadOutput::function},
                 {.name = "teacher", .output = HeadOutput::states, .gradient = false, .model = 0}};
  good.counts = {"tokens"};
  good.terms = {{}, {}};
  CHECK(fault(good).empty());
  const auto with = [&](const auto& change) {
    auto wrong = good;
    change(wrong.passes);
    return fault(wrong);
  };
  CHECK_THAT(with([](auto& passes) { passes[1].model = 1; }), Contains("of model 1 of 1"));
  CHECK_THAT(with([](auto& passes) { passes[0].model = 0; }), Contains("which another model computes"));
  CHECK_THAT(with([](auto& passes) { passes[1].model.reset(); }), Contains("wants states of pass 'teacher'"));
}

TEST_CASE("terms are put on the first one's count, and a count of 0 divides nothing") {
  const strategy::Objective objective("mine", std::make_shared<Given>(reference_and_policy()));
  CHECK(objective.base() == 1);
  CHECK(objective.needs_base());
  CHECK(objective.factors({4, 12}) == std::vector<double>{2, 0.5 * 12 / 4});
  CHECK(objective.factors({0, 12}) == std::vector<double>{2, 0.5 * 12});
  CHECK(objective.factors({4, 0}) == std::vector<double>{2, 0.5 / 4});
}

TEST_CASE("sums of other sizes than the plan's are refused with the plugin's name") {
  const auto given = std::make_shared<Given>(reference_and_policy());
  const strategy::Objective objective("mine", given);
  given->given.terms.pop_back();
  CHECK_THROWS_WITH(objective.sums({}, {}), Contains("gives 1 terms, its plan() has 2") && Contains("'mine'"));
  given->given.terms = {at::ones({}), at::ones({2})};
  CHECK_THROWS_WITH(objective.sums({}, {}), Contains("no 0-dim tensors"));
}

}  // namespace objective_test
