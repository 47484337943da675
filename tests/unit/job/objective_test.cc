// What an objective needs and a configuration does not give is said before anything is allocated.
#include "job/objective.h"

#include <capstan/objective.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

namespace objective_test {

using namespace capstan;

namespace {

struct NoOptions {
  static void describe(config::OptionTable<NoOptions>& /*t*/) {}
};

// Pairs with a reward, compared with the base model.
class Needs : public objective::Objective {
 public:
  explicit Needs(const config::Options<NoOptions>& /*options*/) {}
  objective::Plan plan() const override {
    objective::Plan plan;
    plan.passes = {{"reference", nn::HeadOutput::loss_sum, false, false}, {"policy"}};
    plan.counts = {"samples"};
    plan.terms = {{}};
    plan.figures = {{"difference"}};
    plan.sequences = 2;
    plan.fields = {{"reward", data::FieldSpec::Type::float32, data::FieldSpec::Per::sequence}};
    return plan;
  }
  std::vector<double> counts(const data::HostBatch& batch) const override {
    return {static_cast<double>(batch.real_samples)};
  }
  objective::Sums sums(const std::vector<at::Tensor>& outputs, const nn::Batch& /*batch*/) const override {
    return {{outputs[1]}, {outputs[1] - outputs[0]}};
  }
};

testing::TrainResult train(const std::string& tables) {
  return testing::train({.config = "[objective]\nplugin = \"needs\"\n" + tables,
                         .overrides = {"train.cuda_graphs=off"},
                         .steps = 2,
                         .types = {testing::type<objective::Objective, Needs, NoOptions>("objective", "needs")}});
}

const std::string pairs = "[data]\nsequences = 2\nfields = [\"reward float32 sequence\"]\n";
const std::string adapters = "[strategy.lora]\nrank = 2\ntargets = [\"linear_qkv\"]\n";

}  // namespace

TEST_CASE("an objective's form of samples is what the data have, or both are named") {
  CHECK_THROWS_WITH(train(adapters), Contains("'needs' needs samples of 2 sequences") && Contains("'tiny' have 1"));
  CHECK_THROWS_WITH(train(adapters + "[data]\nsequences = 2\n"),
                    Contains("needs the field 'reward' (float32, one a sequence)") && Contains("does not give"));
  CHECK_THROWS_WITH(train(adapters + "[data]\nsequences = 2\nfields = [\"reward float32 token\"]\n"),
                    Contains("it gives 'reward' (float32, one a token)"));
  CHECK(train(adapters + pairs).losses.size() == 2);
}

TEST_CASE("sequences that mean something are only learned by an objective that tells them apart") {
  const std::string meaning = "meaning = \"a preferred answer and a rejected one\"\n";
  const auto run = [](const std::string& tables) { return testing::train({.config = tables, .steps = 2}); };
  const std::string words =
      "a sample of the data plugin 'tiny' is a preferred answer and a rejected one, and the "
      "objective 'causal_lm' would learn all of it alike\n    fix: set [objective] plugin to one "
      "that compares them, or take out what asks for such samples (data.pairs, data.labels)";
  CHECK_THROWS_WITH(run("[data]\nsequences = 2\n" + meaning), Contains(words));
  CHECK_THROWS_WITH(run("[objective]\nplugin = \"causal_lm\"\n[data]\nsequences = 2\n" + meaning), Contains(words));
  // One without a meaning that asks for two sequences, or has a value of each, knows what they are.
  CHECK(train(adapters + pairs + meaning).losses.size() == 2);
  const std::string dpo = "[objective]\nplugin = \"dpo\"\nloss = \"simpo\"\n[data]\nsequences = 2\n";
  CHECK(run(dpo + meaning).losses.size() == 2);
  CHECK(run(dpo).losses.size() == 2);
  CHECK_THROWS_WITH(run(dpo + "meaning = \"a question and an answer\"\n"),
                    Contains("is a question and an answer, and the objective 'dpo' would learn it as a preferred "
                             "answer and a rejected one"));
}

TEST_CASE("a comparison with the base model is refused where there is none") {
  CHECK_THROWS_WITH(train(pairs), Contains("compares with the base model") && Contains("there are no adapters"));
  CHECK_THROWS_WITH(train(pairs + adapters + "bias = \"lora_only\"\n"),
                    Contains("compares with the base model") && Contains("trained: ") && Contains("bias"));
}

TEST_CASE("an objective that is not there is refused like any plugin") {
  CHECK_THROWS_WITH(testing::train({.config = "[objective]\nplugin = \"nothing\"\n"}),
                    Contains("there is no objective plugin 'nothing'"));
}

}  // namespace objective_test
