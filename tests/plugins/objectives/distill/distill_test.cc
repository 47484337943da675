#include "plugins/objectives/distill/distill.h"

#include <ATen/ATen.h>
#include <capstan/nn/head.h>
#include <capstan_catch.h>

#include "support/folder.h"
#include "support/options.h"

using namespace capstan;
using distill::DistillOptions;

namespace {

config::Value text(const std::string& value) { return config::Value(value); }
config::Value number(std::int64_t value) { return config::Value(value); }

distill::Distill make(testing::OptionValues values) {
  values.insert(values.begin(), {"teacher", text("models/large")});
  return distill::Distill(testing::options_of<DistillOptions>("objective", values));
}

objective::KnownModel model(const std::string& name, std::int64_t words, const std::string& folder = {}) {
  objective::KnownModel known{name, "a.toml:7", folder, {}};
  known.facts.vocab_size = words;
  return known;
}

std::vector<Diagnostic> faults(const distill::Distill& objective, const objective::KnownModel& trained,
                               const objective::KnownModel& teacher) {
  Diagnostics diagnostics;
  objective.check_models(trained, {teacher}, diagnostics);
  return diagnostics.list();
}

}  // namespace

TEST_CASE("distill's plan: the teacher's states or likeliest words, and terms by alpha and the temperature's square") {
  const auto all = make({{"alpha", 0.25}, {"temperature", 2.0}}).plan();
  REQUIRE(all.models.size() == 1);
  CHECK(all.models[0].option == "teacher");
  REQUIRE(all.passes.size() == 2);
  CHECK(all.passes[0].output == nn::HeadOutput::function);
  CHECK(all.passes[1].output == nn::HeadOutput::states);
  CHECK(all.passes[1].model == 0);
  CHECK_FALSE(all.passes[1].gradient);
  REQUIRE(all.terms.size() == 2);
  for (const auto& figure : all.figures) CHECK(figure.better == objective::Better::lower);
  CHECK(all.meaning.empty());
  CHECK(all.terms[0].weight == 0.75);
  CHECK(all.terms[1].weight == 1.0);
  const auto some = make({{"top_k", number(8)}, {"outside", text("renormalised")}}).plan();
  CHECK(some.passes[1].output == nn::HeadOutput::function);
}

TEST_CASE("distill's head: the teacher's words, then the student's loss and its divergence from states or words") {
  const auto rows = [](double step, std::int64_t columns) {
    return at::arange(4 * columns, at::kDouble).mul(step).sin().view({4, columns});
  };
  const auto states = rows(0.7, 3), matrix = at::arange(18, at::kDouble).mul(0.3).cos().view({6, 3});
  const auto theirs = rows(1.1, 2), their_matrix = at::arange(12, at::kDouble).mul(0.9).cos().view({6, 2});
  const nn::Batch batch;
  const nn::HeadInput student{batch,     states,
                              matrix,    at::tensor({1, -100, 3, 5}, at::kLong),
                              {256, {}}, [] { return at::full({}, 7.0, at::kDouble); }},
      teacher{batch, theirs, their_matrix, student.labels, {256, {}}, {}};
  const auto log_q = at::log_softmax(states.mm(matrix.t()) / 2, 1);
  const auto log_p = at::log_softmax(theirs.mm(their_matrix.t()) / 2, 1);
  const auto sum = [&](const at::Tensor& p, const at::Tensor& q) {
    return (p.exp() * (p - q)).sum(1).masked_select(student.labels.ne(-100)).sum().item<double>();
  };
  const auto all = make({{"temperature", 2.0}});
  const auto of_states = all.head(0, student, {{{}, theirs}, {{}, their_matrix}});
  CHECK(of_states[0].item<double>() == 7);
  CHECK(of_states[1].item<double>() == Approx(sum(log_p, log_q)).epsilon(1e-13));

  const auto with_cap = all.head(0, student, {{{}, theirs}, {{}, their_matrix}, {{}, 0.8}});
  const auto log_capped = at::log_softmax((theirs.mm(their_matrix.t()) / 0.8).tanh() * 0.8 / 2, 1);
  CHECK(with_cap[1].item<double>() == Approx(sum(log_capped, log_q)).epsilon(1e-13));

  const auto some = make({{"temperature", 2.0}, {"top_k", number(2)}, {"outside", text("renormalised")}});
  const auto words = some.head(1, teacher, {{{}, {}}, {{}, {}}});
  const auto [values, ids] = log_p.topk(2, 1);
  CHECK(at::equal(words[0], ids.to(at::kDouble)));
  CHECK((words[1] - values).abs().max().item<double>() < 1e-14);
  const auto of_words = some.head(0, student, {{{}, words}, {{}, {}}});
  CHECK(of_words[1].item<double>() ==
        Approx(sum(values - values.logsumexp(1, true), log_q.gather(1, ids))).epsilon(1e-13));

  CHECK_THROWS_WITH(all.head(0, student, {{{}, at::ones({})}, {{}, {}}}),
                    Contains("something else than the objective asks"));
  CHECK_THROWS_WITH(all.sums({at::ones({}), {}}, {}), Contains("gives no divergence from a teacher"));
}

TEST_CASE("words of a teacher that stand in the data are those of the rows that are asked for") {
  const testing::OptionValues values{{"teacher", text("data")}, {"top_k", number(2)}};
  const distill::Distill objective(testing::options_of<DistillOptions>("objective", values));
  nn::Batch batch;
  const auto ids = at::arange(4, at::kLong).view({2, 2}), logs = ids.to(at::kFloat).add(2).neg();
  batch.samples.fields = {{"teacher_word_1", ids},
                          {"teacher_log_probability_1", logs},
                          {"teacher_word_2", 5 - ids},
                          {"teacher_log_probability_2", logs - 1}};
  batch.loss_rows = at::tensor({1, 3}, at::kLong);
  const auto states = at::arange(4, at::kDouble).view({2, 2}),
             matrix = at::arange(12, at::kDouble).mul(0.9).cos().view({6, 2});
  const nn::HeadInput input{
      batch, states, matrix, at::tensor({1, 2}, at::kLong), {256, {}}, [] { return at::zeros({}, at::kDouble); }};
  const auto q = at::softmax(states.mm(matrix.t()), 1);
  const auto some = at::tensor({1, 4, 3, 2}, at::kLong).view({2, 2});
  const auto p = at::tensor({-3.0, -4.0, -5.0, -6.0}, at::kDouble).view({2, 2}).exp();
  const auto with_rest = [](const at::Tensor& x) { return at::cat({x, 1 - x.sum(1, true)}, 1); };
  const auto of_words = with_rest(p), by_student = with_rest(q.gather(1, some));
  const auto expected = (of_words * (of_words.log() - by_student.log())).sum().item<double>();
  CHECK(objective.head(0, input, {})[1].item<double>() == Approx(expected).epsilon(1e-12));
}

TEST_CASE("distill's sums are the head's, its figures have no gradient, and its count is the target tokens") {
  const auto objective = make({});
  const auto output = at::tensor({3.0, 5.0}, at::kDouble).set_requires_grad(true);
  const auto sums = objective.sums({output * 2, {}}, {});
  REQUIRE(sums.terms.size() == 2);
  CHECK(sums.terms[0].item<double>() == 6);
  CHECK(sums.terms[1].item<double>() == 10);
  CHECK(sums.terms[1].requires_grad());
  REQUIRE(sums.figures.size() == objective.plan().figures.size());
  CHECK(sums.figures[0].item<double>() == 6);
  CHECK(sums.figures[1].item<double>() == 10);
  CHECK_FALSE(sums.figures[1].requires_grad());
  data::HostBatch host;
  host.target_tokens = 17;
  CHECK(objective.counts(host) == std::vector<double>{17});
}

TEST_CASE("a teacher's words from the data: no model and no pass, and the fields of the last one") {
  const testing::OptionValues values{{"teacher", text("data")}, {"top_k", number(2)}, {"temperature", 2.0}};
  const auto objective = distill::Distill(testing::options_of<DistillOptions>("objective", values));
  const auto plan = objective.plan();
  CHECK(plan.models.empty());
  REQUIRE(plan.passes.size() == 1);
  CHECK(plan.passes[0].output == nn::HeadOutput::function);
  REQUIRE(plan.fields.size() == 2);
  CHECK(plan.fields[0].name == "teacher_word_2");
  CHECK(plan.fields[1].name == "teacher_log_probability_2");
}

TEST_CASE("a teacher's words from the data are a number of them") {
  Diagnostics diagnostics;
  distill::Distill(testing::options_of<DistillOptions>("objective", {{"teacher", text("data")}})).check(diagnostics);
  REQUIRE(diagnostics.size() == 1);
  CHECK_THAT(diagnostics.list()[0].what, Contains("objective.teacher is \"data\""));
  CHECK_THAT(diagnostics.list()[0].fix, Contains("objective.top_k"));
}

TEST_CASE("a teacher of other words, or of other tokens, is refused with both models named") {
  const auto objective = make({});
  CHECK(faults(objective, model("the trained model", 9), model("teacher", 9)).empty());
  const auto sizes = faults(objective, model("the trained model", 9), model("teacher", 10, "models/large"));
  REQUIRE(sizes.size() == 1);
  CHECK(sizes[0].where == "a.toml:7");
  CHECK_THAT(sizes[0].what, Contains("vocabulary of 10 (models/large)") && Contains("one of 9"));
  const test::Folder scratch;
  (void)scratch.write("a/tokenizer.json", R"({"model": {"vocab": {"a": 0}}})");
  (void)scratch.write("b/tokenizer.json", R"({"model": {"vocab": {"b": 0}}})");
  const auto tokens = faults(objective, model("the trained model", 9, (scratch / "a").string()),
                             model("teacher", 9, (scratch / "b").string()));
  REQUIRE(tokens.size() == 1);
  CHECK_THAT(tokens[0].what, Contains("other tokens") && Contains("id 0 is 'a'") && Contains("'b'"));
}

TEST_CASE("options of distill that say nothing, or that no distillation can have, are refused") {
  Diagnostics diagnostics;
  make({{"outside", text("tail")}}).check(diagnostics);  // as in a run's own config.toml
  REQUIRE(diagnostics.size() == 0);
  make({{"outside", text("renormalised")}}).check(diagnostics);
  REQUIRE(diagnostics.size() == 1);
  CHECK(diagnostics.list()[0].where == "a.toml:3");
  CHECK_THAT(diagnostics.list()[0].what, Contains("objective.outside"));
  const auto many = faults(make({{"top_k", number(10)}}), model("the trained model", 9), model("teacher", 9));
  REQUIRE(many.size() == 1);
  CHECK(many[0].where == "a.toml:3");
  CHECK_THROWS_AS(make({{"alpha", 0.0}}), Error);
  CHECK_THROWS_AS(make({{"alpha", 1.1}}), Error);
  CHECK_THROWS_AS(make({{"temperature", 0.0}}), Error);
  CHECK_THROWS_AS(distill::Distill(testing::options_of<DistillOptions>("objective", {})), Error);
}
