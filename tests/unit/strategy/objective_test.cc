#include "strategy/objective.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>
#include <capstan_catch.h>

#include <utility>

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
}

TEST_CASE("a pass of another model has no gradient, and a divergence has a teacher that says something") {
  using nn::HeadOutput;
  objective::Plan good;
  good.models = {{"teacher", "teacher"}};
  good.passes = {{.name = "student", .output = HeadOutput::divergence, .teacher = 1},
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
  CHECK_THAT(with([](auto& passes) { passes[0].teacher.reset(); }), Contains("not with both and a gradient"));
  CHECK_THAT(with([](auto& passes) { passes[0].output = HeadOutput::loss_sum; }), Contains("not with both"));
  CHECK_THAT(with([](auto& passes) { passes[0].teacher = 2; }), Contains("neither states nor likeliest words"));
  CHECK_THAT(with([](auto& passes) { passes[1].output = HeadOutput::likeliest_words; }),
             Contains("neither states nor likeliest words"));
}

TEST_CASE("a divergence may have a teacher's words from the data in place of another pass") {
  using nn::HeadOutput;
  objective::Plan good;
  good.passes = {{.name = "student", .output = HeadOutput::divergence}};
  good.passes[0].comparison.words = 2;
  good.passes[0].comparison.rest = ops::TeacherWords::Rest::renormalised;
  good.counts = {"tokens"};
  good.terms = {{}, {}};
  CHECK(fault(good).empty());
  auto wrong = good;
  wrong.passes[0].gradient = false;
  wrong.passes.push_back({"policy"});
  CHECK_THAT(fault(wrong), Contains("not with both and a gradient"));

  const auto objective = std::make_shared<const strategy::Objective>("mine", std::make_shared<Given>(good));
  nn::Batch batch;
  const auto ids = at::arange(4, at::kLong).view({2, 2}), logs = at::arange(4, at::kLong).view({2, 2}).neg();
  batch.samples.fields = {{"teacher_word_1", ids},
                          {"teacher_log_probability_1", logs},
                          {"teacher_word_2", ids + 10},
                          {"teacher_log_probability_2", logs - 10}};
  const auto words = [&] {
    return std::get<ops::TeacherWords>(strategy::Passes(objective, {}).trained(batch).pass.teacher.value());
  };
  CHECK(words().ids.size(0) == 4);
  batch.loss_rows = at::tensor({1, 3}, at::kLong);
  CHECK(at::equal(words().ids, at::tensor({1, 11, 3, 13}, at::kLong).view({2, 2})));
  CHECK(at::equal(words().log_probabilities, at::tensor({-1, -11, -3, -13}, at::kLong).view({2, 2})));
  CHECK(words().rest == ops::TeacherWords::Rest::renormalised);
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

TEST_CASE("sums of other sizes than the plan's are refused with the plugin's name") {
  const auto given = std::make_shared<Given>(plan());
  const strategy::Objective objective("mine", given);
  given->given.terms.pop_back();
  CHECK_THROWS_WITH(objective.sums({}, {}), Contains("gives 1 terms, its plan() has 2") && Contains("'mine'"));
  given->given.terms = {at::ones({}), at::ones({2})};
  CHECK_THROWS_WITH(objective.sums({}, {}), Contains("no 0-dim tensors"));
}

}  // namespace objective_test
