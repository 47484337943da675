// What an objective, or an answer, asks of a head that does not give it is refused before anything is allocated.
#include "job/head_outputs.h"

#include <capstan/testing.h>
#include <capstan_catch.h>

#include "support/errors.h"

namespace head_outputs_test {

using namespace capstan;

namespace {

struct NoOptions {
  static void describe(config::OptionTable<NoOptions>& /*t*/) {}
};

class Rewards : public objective::Objective {
 public:
  explicit Rewards(const config::Options<NoOptions>& /*options*/) {}
  objective::Plan plan() const override {
    objective::Plan plan;
    plan.passes = {{"reward", nn::HeadOutput::values}};
    plan.counts = {"samples"};
    plan.terms = {{}};
    return plan;
  }
  std::vector<double> counts(const data::HostBatch& batch) const override {
    return {static_cast<double>(batch.real_samples)};
  }
  objective::Sums sums(const std::vector<at::Tensor>& outputs, const nn::Batch& batch) const override {
    const auto last = batch.last_labels().unsqueeze(1).to(outputs[0].scalar_type());
    return {{(outputs[0] * last).square().sum()}, {}};
  }
};

std::string fault(const std::string& tables) {
  return test::error_of([&] {
    (void)testing::train({.config = tables,
                          .steps = 1,
                          .types = {testing::type<objective::Objective, Rewards, NoOptions>("objective", "rewards")}});
  });
}

const std::string llama =
    "[model]\nplugin = \"llama\"\nvocab_size = 261\nhidden_size = 8\nnum_layers = 1\nnum_heads = 2\nff_dim = 12\n"
    "seq_length = 24\n";

}  // namespace

TEST_CASE("an objective that asks a head for what it does not give is refused, with both plugins and the pass") {
  const auto words = fault(llama + "head_values = 2\n");
  CHECK_THAT(words, Contains("the objective 'causal_lm' asks for a loss in its pass '") &&
                        Contains("the head of the model plugin 'llama' gives values") &&
                        Contains("take a model whose head gives that (an nn::VocabularyHead does)"));
  const auto values = fault("[objective]\nplugin = \"rewards\"\n");
  CHECK_THAT(values, Contains("the objective 'rewards' asks for values in its pass 'reward'") &&
                         Contains("model plugin 'tiny' gives a loss, the labels' log-probabilities, logits") &&
                         Contains("give the model a head of values"));
  // A teacher is asked as the trained model is.
  const std::string teacher = "[objective]\nplugin = \"distill\"\nteacher = \"start\"\n";
  CHECK_THAT(
      fault(teacher),
      Contains("asks for what a function of the objective's makes of its states and matrix in its pass 'student'") &&
          Contains("asks for the states that its matrix is multiplied with in its pass 'teacher'"));
  CHECK(fault(llama + teacher).empty());
  CHECK(fault(llama + "head_values = 2\n[objective]\nplugin = \"rewards\"\n").empty());
}

TEST_CASE("answers of a head without logits are refused") {
  const auto asked =
      fault(llama + "head_values = 2\n[objective]\nplugin = \"rewards\"\n[train]\ngenerate_samples = 3\n");
  CHECK_THAT(asked, Contains("train.generate_samples = 3 asks for answers") && Contains("gives values, no logits") &&
                        Contains("set train.generate_samples = 0"));
}

}  // namespace head_outputs_test
