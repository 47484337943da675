#include "strategy/objective.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>
#include <capstan/nn/head.h>
#include <capstan_catch.h>

#include <tuple>
#include <utility>
#include <vector>

namespace objective_test {

using namespace capstan;

namespace {

// As its plan says, unless a test changes what it gives.
class Given : public objective::Objective {
 public:
  explicit Given(objective::Plan plan) : plan_(std::move(plan)) {}
  objective::Plan plan() const override { return plan_; }
  std::vector<double> counts(const data::HostBatch& /*batch*/) const override { return {3, 5}; }
  objective::Sums sums(const std::vector<at::Tensor>& outputs, const nn::Batch& batch) const override {
    seen = {outputs, batch};
    return given;
  }

  objective::Sums given{{at::ones({}), at::ones({})}, {}};
  mutable std::pair<std::vector<at::Tensor>, nn::Batch> seen;

 private:
  objective::Plan plan_;
};

// A reference, then what is trained.
objective::Plan plan() {
  objective::Plan plan;
  plan.passes = {{"reference", nn::HeadOutput::log_probabilities, false, false},
                 {"policy", nn::HeadOutput::log_probabilities}};
  plan.counts = {"pairs", "tokens"};
  plan.terms = {{2.0, 1}, {0.5, 0}};
  return plan;
}

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
  CHECK(fault(plan()).empty());
  auto wrong = plan();
  wrong.passes[0].gradient = true;
  CHECK_THAT(fault(wrong), Contains("2 passes with a gradient") && Contains("'mine'"));
  wrong = plan();
  wrong.passes[1].adapters = false;
  CHECK_THAT(fault(wrong), Contains("trains pass 'policy' without adapters"));
  wrong = plan();
  wrong.passes[0].output = nn::HeadOutput::last_logits;
  CHECK_THAT(fault(wrong), Contains("logits of pass 'reference'"));
  wrong = plan();
  wrong.terms.clear();
  CHECK_THAT(fault(wrong), Contains("no term"));
  wrong = plan();
  wrong.terms[1].count = 2;
  CHECK_THAT(fault(wrong), Contains("a term with count 2 of 2"));
  wrong = plan();
  wrong.figures = {{"accuracy", 7}};
  CHECK_THAT(fault(wrong), Contains("a figure with count 7 of 2"));
  wrong = plan();
  wrong.baselines = {{"distance", 2}};
  CHECK_THAT(fault(wrong), Contains("a baseline with count 2 of 2"));
  wrong.baselines = {{"distance", 0}};
  CHECK(fault(wrong).empty());
  wrong.models = {{"teacher", "teacher"}};
  wrong.passes.push_back({.name = "theirs", .output = nn::HeadOutput::states, .gradient = false, .model = 0});
  CHECK_THAT(fault(wrong), Contains("has baselines, and wants states of pass 'theirs'"));
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

TEST_CASE("the head of a pass calls the objective with what earlier passes gave") {
  auto both = plan();
  both.passes = {{"trained", nn::HeadOutput::function},
                 {"first", nn::HeadOutput::log_probabilities, false},
                 {"second", nn::HeadOutput::function, false}};
  using Asked = std::tuple<std::size_t, at::Tensor, objective::Others>;
  class WithHead final : public Given {
   public:
    using Given::Given;
    at::Tensor head(std::size_t pass, const nn::HeadInput& input, const objective::Others& others) const override {
      asked.emplace_back(pass, input.states, others);
      return input.states * 2;
    }
    mutable std::vector<Asked> asked;
  };
  const auto object = std::make_shared<WithHead>(both);
  const auto call = [](const nn::Batch& batch, const at::Tensor& states) {
    return batch.pass.function({batch, states, {}, {}, {}, {}});
  };
  strategy::Passes passes(std::make_shared<const strategy::Objective>("mine", object), [&](const nn::Batch& batch) {
    const auto states = at::full({1}, 3.0);
    return nn::Hidden{batch.pass.function ? call(batch, states) : states, {}, {}};
  });
  const nn::Batch batch;
  const auto others = passes.run_others(batch);
  (void)call(passes.trained(batch, others), at::full({1}, 5.0));
  REQUIRE(object->asked.size() == 2);
  const auto& [second, its_states, before] = object->asked[0];
  CHECK(second == 2);
  CHECK(its_states.item<double>() == 3);
  CHECK(before.outputs[1].item<double>() == 3);
  CHECK_FALSE(before.outputs[2].defined());
  const auto& [trained, states, all] = object->asked[1];
  CHECK(trained == 0);
  CHECK(states.item<double>() == 5);
  CHECK(all.outputs[2].item<double>() == 6);
  CHECK_FALSE(all.outputs[0].defined());

  const auto without = std::make_shared<const strategy::Objective>("mine", std::make_shared<Given>(both));
  CHECK_THROWS_WITH(call(strategy::Passes(without, {}).trained(batch), at::ones({1})),
                    Contains("there is no function head()") && Contains("'mine'"));
}

TEST_CASE("terms are put on the first one's count, and a count of 0 divides nothing") {
  const strategy::Objective objective("mine", std::make_shared<Given>(plan()));
  CHECK(objective.base() == 1);
  CHECK(objective.needs_base());
  CHECK(objective.factors({4, 12}) == std::vector<double>{2, 0.5 * 12 / 4});
  CHECK(objective.factors({0, 12}) == std::vector<double>{2, 0.5 * 12});
  CHECK(objective.factors({4, 0}) == std::vector<double>{2, 0.5 / 4});
}

TEST_CASE("passes without gradient come first, and change nothing") {
  const auto given = std::make_shared<Given>(plan());
  std::vector<nn::Batch> forwards;
  strategy::Passes passes(std::make_shared<const strategy::Objective>("mine", given), [&](const nn::Batch& batch) {
    CHECK_FALSE(at::GradMode::is_enabled());
    forwards.push_back(batch);
    return nn::Hidden{at::full({3}, -7.0), {}, {}};
  });
  nn::Batch batch;
  batch.training = true;
  auto others = passes.run_others(batch);
  REQUIRE(forwards.size() == 1);
  CHECK(forwards[0].pass.output == nn::HeadOutput::log_probabilities);
  CHECK_FALSE(forwards[0].pass.adapters);
  CHECK_FALSE(forwards[0].pass.measured);
  CHECK_FALSE(forwards[0].training);
  const auto trained = passes.trained(batch);
  CHECK(trained.pass.adapters);
  CHECK(trained.pass.measured);
  CHECK(trained.training);
  (void)passes.sums(trained, std::move(others), at::ones({3}));
  REQUIRE(given->seen.first.size() == 2);
  CHECK(given->seen.first[0][0].item<float>() == -7);
  CHECK(given->seen.first[1][0].item<float>() == 1);
  CHECK(given->seen.second.training);
  (void)passes.evaluate(batch);
  CHECK(forwards.size() == 3);
  CHECK(forwards.back().pass.adapters);
}

TEST_CASE("the pass with the gradient is told baselines, 0 until a step has them") {
  auto needs = plan();
  needs.baselines = {{"distance", 0}, {"reward", 1}};
  class Needs final : public Given {
   public:
    using Given::Given;
    std::vector<at::Tensor> baselines(const objective::Others& others, const nn::Batch& /*batch*/) const override {
      return {others.outputs[0].sum(), at::full({}, 5.0F)};
    }
  };
  strategy::Passes passes(std::make_shared<const strategy::Objective>("mine", std::make_shared<Needs>(needs)), {});
  nn::Batch batch;
  batch.tokens = at::zeros({1, 1}, at::kLong);
  const auto told = [&] { return passes.trained(batch).pass.baselines; };
  CHECK(at::equal(told(), at::zeros({2}, at::kDouble)));
  const auto sums = passes.baselines(batch, {at::ones({3}), {}});
  CHECK(at::equal(sums, at::tensor({3.0, 5.0}, at::kDouble)));
  passes.tell(sums, {2, 0});
  CHECK(at::equal(told(), at::tensor({1.5, 5.0}, at::kDouble)));
  const strategy::Passes without(std::make_shared<const strategy::Objective>("mine", std::make_shared<Given>(needs)),
                                 {});
  CHECK_THROWS_WITH(without.baselines(batch, {at::ones({3}), {}}), Contains("gives 0 baselines, its plan() has 2"));
}

TEST_CASE("sums of other sizes than the plan's are refused with the plugin's name") {
  const auto given = std::make_shared<Given>(plan());
  const strategy::Objective objective("mine", given);
  given->given.terms.pop_back();
  CHECK_THROWS_WITH(objective.sums({}, {}), Contains("gives 1 terms, its plan() has 2") && Contains("'mine'"));
  given->given.terms = {at::ones({}), at::ones({2})};
  CHECK_THROWS_WITH(objective.sums({}, {}), Contains("no 0-dim tensors"));
}

}  // namespace objective_test
