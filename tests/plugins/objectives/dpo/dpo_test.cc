#include "plugins/objectives/dpo/dpo.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>

#include "support/folder.h"
#include "support/options.h"

namespace dpo_test {

using namespace capstan;

namespace {

config::Value text(const char* value) { return config::Value(std::string(value)); }

dpo::Dpo make(const testing::OptionValues& values) {
  return dpo::Dpo(testing::options_of<dpo::DpoOptions>("objective", values));
}

// Two places for pairs, the second one empty; the answers have 1 and 2 labels.
nn::Batch batch() {
  nn::Batch batch;
  batch.tokens = at::zeros({4, 3}, at::kLong);
  batch.labels = at::full({4, 3}, -100, at::kLong);
  batch.labels[0][1].fill_(5);
  batch.labels[1][1].fill_(5);
  batch.labels[1][2].fill_(6);
  batch.sample_ids = at::tensor({8, 9, -1, -1}, at::kLong);
  batch.samples = {2, 2, {{dpo::reference_field, at::tensor({-1.5F, -2.0F, 0.0F, 0.0F})}}};
  return batch;
}

at::Tensor log_probabilities(double first, double second, double third) {
  auto all = at::zeros({12}, at::kDouble);
  all[1].fill_(first);
  all[4].fill_(second);
  all[5].fill_(third);
  return all;
}

}  // namespace

TEST_CASE("dpo's passes: the base model only where the loss has a reference, which is it") {
  const auto base = make({}).plan();
  REQUIRE(base.passes.size() == 2);
  CHECK_FALSE(base.passes[1].adapters);
  CHECK_FALSE(base.passes[1].gradient);
  CHECK(base.sequences == 2);
  CHECK(base.meaning == "a preferred answer and a rejected one");
  CHECK(base.fields.empty());
  for (const auto& figure : base.figures) {
    using objective::Better;
    CHECK(figure.better == (figure.name == "reward_rejected" ? Better::lower : Better::higher));
  }
  const auto saved = make({{"reference", text("data")}}).plan();
  CHECK(saved.passes.size() == 1);
  REQUIRE(saved.fields.size() == 1);
  CHECK(saved.fields[0].name == "reference_log_probability");
  for (const auto* model : {"start", "models/large"}) {
    const auto other = make({{"reference", text(model)}}).plan();
    REQUIRE(other.passes.size() == 2);
    CHECK(other.passes[1].model == 0);
    CHECK(other.passes[1].adapters);
    CHECK(other.models.front().option == "reference");
    CHECK(other.fields.empty());
  }
  CHECK(base.models.empty());
  CHECK(make({{"loss", text("simpo")}}).plan().passes.size() == 1);
  CHECK(make({{"loss", text("simpo")}}).plan().fields.empty());
}

TEST_CASE("dpo: a pair's loss and rewards, nothing of an empty place; the reference's are its own or saved ones") {
  const auto policy = log_probabilities(-1, -2, -1), reference = log_probabilities(-1.5, -1.5, -0.5);
  const auto expected = -std::log(1 / (1 + std::exp(-0.1 * ((-1 + 1.5) - (-3 + 2.0)))));
  for (const bool is_saved : {false, true}) {
    const auto values = is_saved ? testing::OptionValues{{"reference", text("data")}} : testing::OptionValues{};
    const auto objective = make(values);
    const auto outputs = is_saved ? std::vector<at::Tensor>{policy} : std::vector<at::Tensor>{policy, reference};
    const auto sums = objective.sums(outputs, batch());
    REQUIRE(sums.terms.size() == 1);
    CHECK(sums.terms[0].item<double>() == Approx(expected).epsilon(1e-12));
    REQUIRE(sums.figures.size() == objective.plan().figures.size());
    CHECK(sums.figures[0].item<double>() == Approx(0.05));  // chosen
    CHECK(sums.figures[1].item<double>() == Approx(-0.1));  // rejected
    CHECK(sums.figures[2].item<double>() == Approx(0.15));  // margin
    CHECK(sums.figures[3].item<double>() == 1);             // correct
  }
}

TEST_CASE("a reference with other tokens is refused") {
  const test::Folder scratch;
  (void)scratch.write("a/tokenizer.json", R"({"model": {"vocab": {"a": 0}}})");
  (void)scratch.write("b/tokenizer.json", R"({"model": {"vocab": {"b": 0}}})");
  const auto known = [&](const char* folder) {
    return objective::KnownModel{folder, "a.toml:7", (scratch / folder).string(), {}};
  };
  Diagnostics diagnostics;
  make({{"reference", text("b")}}).check_models(known("a"), {known("a")}, diagnostics);
  CHECK(diagnostics.empty());
  make({{"reference", text("b")}}).check_models(known("a"), {known("b")}, diagnostics);
  REQUIRE(diagnostics.size() == 1);
  CHECK(diagnostics.list()[0].where == "a.toml:7");
  CHECK_THAT(diagnostics.list()[0].what, Contains("other tokens") && Contains("id 0"));
}

TEST_CASE("dpo counts pairs that there are") {
  data::HostBatch host;
  host.samples = 4;
  host.real_samples = 3;
  CHECK(make({}).counts(host) == std::vector<double>{3});
}

}  // namespace dpo_test
