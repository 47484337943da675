#include "step/passes.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/nn/head.h>
#include <capstan_catch.h>

#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "support/given_objective.h"

namespace passes_test {

using namespace capstan;
using testing::Given;
using testing::reference_and_policy;

TEST_CASE("the head of a pass calls the objective with what earlier passes gave") {
  auto both = reference_and_policy();
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
  step::Passes passes(std::make_shared<const strategy::Objective>("mine", object), [&](const nn::Batch& batch) {
    const auto states = at::full({1}, 3.0);
    return nn::Hidden{batch.pass.function ? call(batch, states) : states, {}, {}};
  });
  const nn::Batch batch;
  const auto others = passes.run_others({batch});
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
  CHECK_THROWS_WITH(call(step::Passes(without, {}).trained(batch), at::ones({1})),
                    Contains("there is no function head()") && Contains("'mine'"));
}

TEST_CASE("passes without gradient come first, and change nothing") {
  const auto given = std::make_shared<Given>(reference_and_policy());
  std::vector<nn::Batch> forwards;
  step::Passes passes(std::make_shared<const strategy::Objective>("mine", given), [&](const nn::Batch& batch) {
    CHECK_FALSE(at::GradMode::is_enabled());
    forwards.push_back(batch);
    return nn::Hidden{at::full({3}, -7.0), {}, {}};
  });
  nn::Batch batch;
  batch.training = true;
  auto others = passes.run_others({batch});
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
  (void)passes.evaluate({batch});
  CHECK(forwards.size() == 3);
  CHECK(forwards.back().pass.adapters);
}

TEST_CASE("the pass with the gradient is told baselines, 0 until a step has them") {
  auto needs = reference_and_policy();
  needs.baselines = {{"distance", 0}, {"reward", 1}};
  class Needs final : public Given {
   public:
    using Given::Given;
    std::vector<at::Tensor> baselines(const objective::Others& others, const nn::Batch& /*batch*/) const override {
      return {others.outputs[0].sum(), at::full({}, 5.0F)};
    }
  };
  step::Passes passes(std::make_shared<const strategy::Objective>("mine", std::make_shared<Needs>(needs)), {});
  nn::Batch batch;
  batch.tokens = at::zeros({1, 1}, at::kLong);
  const auto told = [&] { return passes.trained(batch).pass.baselines; };
  CHECK(at::equal(told(), at::zeros({2}, at::kDouble)));
  const auto sums = passes.baselines(batch, {at::ones({3}), {}});
  CHECK(at::equal(sums, at::tensor({3.0, 5.0}, at::kDouble)));
  passes.tell(sums, {2, 0});
  CHECK(at::equal(told(), at::tensor({1.5, 5.0}, at::kDouble)));
  const step::Passes without(std::make_shared<const strategy::Objective>("mine", std::make_shared<Given>(needs)), {});
  CHECK_THROWS_WITH(without.baselines(batch, {at::ones({3}), {}}), Contains("gives 0 baselines, its plan() has 2"));
}

}  // namespace passes_test
