// Answers and their scores are the same however strategies share a model: five questions, on four data ranks too; one
// question is answered at once.
#include <ATen/ATen.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include <map>
#include <optional>
#include <utility>

#include "generation/generate.h"
#include "step/evaluate.h"
#include "support/compositions.h"
#include "support/folder.h"
#include "support/small_run.h"
#include "train/loop.h"

namespace generate_composition_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

constexpr std::int64_t at_once = 1;  // the question whose answer ends at its first token
constexpr std::int64_t longest = 6;
constexpr std::int64_t at_a_time = 50;  // prompts that are tried
constexpr int positions = 80;           // what squad's own questions need; these are shorter

std::string config(const Family& family, bool with_adapters, const std::string& strategies) {
  return "[run]\nseed = 3\ndevice = \"cpu\"\n" + family_config(family, positions) +
         "[data]\nplugin = \"squad\"\ntrain = \"" CAPSTAN_SOURCE_DIR
         "/configs/data/mini_squad_train.json\"\neval = \"" CAPSTAN_SOURCE_DIR
         "/configs/data/mini_squad_eval.json\"\n[train]\nmax_steps = 1\nglobal_batch = 24\nprecision = \"fp64\"\n"
         "eval_batch = 2\ntemperature = 1.5\nmax_new_tokens = " +
         std::to_string(longest) + "\n" + (with_adapters ? adapters_of(family) : "") + strategies;
}

struct Question {
  std::vector<std::int64_t> prompt;
  std::vector<std::string> references;
};

// The questions as a split, scored as SQuAD's are.
class Questions : public data::DataSource {
 public:
  Questions(const std::vector<Question>& list, const job::Job& job)
      : list_(list), squad_(*job.samples.eval), end_(job.samples.tokenizer.object->end_id()) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(list_.size()); }
  data::Sample get(std::int64_t index) const override {
    const auto& question = list_[static_cast<std::size_t>(index)];
    data::Sample sample;
    sample.id = "question " + std::to_string(index);
    sample.tokens = question.prompt;
    sample.tokens.push_back(end_);
    sample.is_target.assign(sample.tokens.size(), false);
    sample.is_target.back() = true;
    sample.prompt_length = static_cast<std::int64_t>(question.prompt.size());
    sample.references = question.references;
    return sample;
  }
  monitor::Values score(const data::Sample& sample, const std::string& text) const override {
    return squad_.score(sample, text);
  }

 private:
  const std::vector<Question>& list_;
  const data::DataSource& squad_;
  std::int64_t end_;
};

std::vector<std::int64_t> some_prompt(std::int64_t index) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = 0; i < 3 + index % 7; ++i) tokens.push_back(32 + (index * 31 + i * i * 17 + index / 97) % 90);
  return tokens;
}

// A prompt whose answer, as the question of this row, is as long as it may be and has words; or is none at all.
std::optional<Question> find_question(const job::Job& job, step::Session& session, std::int64_t row,
                                      std::int64_t first) {
  std::vector<generation::Prompt> prompts;
  for (std::int64_t i = first; i < first + at_a_time; ++i) prompts.push_back({some_prompt(i), row});
  const auto answers = generation::Generator(session).tokens(prompts);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const auto text = job.samples.tokenizer.object->decode(answers[i]);
    const auto nearly = text + " zebra";
    const bool has_words = job.samples.eval->score({{}, {}, 0, "", {nearly}}, text).back().second > 0;
    const bool wanted =
        row == at_once ? answers[i].empty() : has_words && static_cast<std::int64_t>(answers[i].size()) == longest;
    if (!wanted) continue;
    const std::map<std::int64_t, std::string> references{{0, text}, {2, nearly}};  // right, and right in part
    return Question{prompts[i].tokens, {references.contains(row) ? references.at(row) : "none"}};
  }
  return {};
}

Question find_question(const job::Job& job, step::Session& session, std::int64_t row) {
  for (std::int64_t first = 0; first < 2000; first += at_a_time) {
    if (auto found = find_question(job, session, row, first)) return *found;
  }
  throw Error("no such prompt");
}

struct Asked {
  execution::Evaluation answers;
  execution::Evaluation loss;
};

Asked ask(const job::Job& job, step::Session& session, const std::vector<Question>& questions) {
  const Questions source(questions, job);
  const step::Feed feed(job);
  step::Evaluator evaluator(session, feed);
  return {generation::library().answers(session, source, -1, nullptr), evaluator.loss(source)};
}

struct Reference {
  std::vector<Question> questions;
  Asked asked;
};

Reference alone(const Family& family, bool with_adapters) {
  const test::Folder folder;
  const auto file = folder.write("a.toml", config(family, with_adapters, ""));
  Reference reference;
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    const auto job = prepare_small(file, {}, 1, 0);
    auto session = step::materialise(job, communicator);
    for (std::int64_t row = 0; row < 5; ++row) reference.questions.push_back(find_question(job, session, row));
    reference.asked = ask(job, session, reference.questions);
  });
  return reference;
}

std::vector<std::string> texts(const execution::Evaluation& evaluation) {
  std::vector<std::string> out;
  for (const auto& answer : evaluation.answers) out.push_back(answer.id + ": " + answer.text);
  return out;
}

double score(const execution::Evaluation& evaluation, const std::string& name) {
  for (const auto& [key, value] : evaluation.scores) {
    if (key == name) return value;
  }
  return -1;
}

// What each rank is told.
void check(const Family& family, bool with_adapters, const Composition& composition, const Reference& reference) {
  INFO(family.plugin << (with_adapters ? " with adapters, " : ", ") << composition.name);
  const test::Folder folder;
  const auto file = folder.write("a.toml", config(family, with_adapters, composition.strategies));
  std::vector<Asked> all(static_cast<std::size_t>(composition.world));
  comm::run_in_process(composition.world, [&](comm::Communicator& communicator) {
    const auto job = prepare_small(file, {}, composition.world, communicator.world().rank);
    auto session = step::materialise(job, communicator);
    all[static_cast<std::size_t>(job.topology.rank)] = ask(job, session, reference.questions);
  });
  for (const auto& asked : all) {
    CHECK(texts(asked.answers) == texts(reference.asked.answers));
    CHECK(asked.answers.scores == reference.asked.answers.scores);
    CHECK(asked.answers.samples == 5);
    // Sums in float64 in another order.
    CHECK(asked.loss.loss == Approx(reference.asked.loss.loss).epsilon(1e-12).margin(0));
  }
}

// Besides the others: each kind of sharding with four data ranks. One of them has no question, and one has one.
std::vector<Composition> layouts() {
  auto list = compositions();
  list.push_back({"fsdp on four", 4, "[strategy.fsdp]\n"});
  list.push_back({"fsdp on four, offloaded", 4, "[strategy.fsdp]\ncpu_offload = true\n"});
  for (const char* stage : {"1", "2", "3"}) {
    list.push_back({std::string("zero ") + stage + " on four, recompute", 4,
                    std::string("[strategy.recompute]\n[strategy.zero]\nstage = ") + stage + "\n"});
  }
  list.push_back({"TP 4", 4, "[strategy.tensor_parallel]\nsize = 4\n"});
  list.push_back({"TP 2 with SP x zero 3", 8,
                  "[strategy.tensor_parallel]\nsize = 2\nsequence_parallel = true\n[strategy.zero]\nstage = 3\n"});
  return list;
}

// Which of the layouts are asked with adapters, and which without.
enum class Layouts { all_of_them, even_with_adapters, odd_with_adapters };

bool is_asked(Layouts layouts, std::size_t number, bool with_adapters) {
  if (layouts == Layouts::all_of_them) return true;
  return ((number % 2 == 0) == (layouts == Layouts::even_with_adapters)) == with_adapters;
}

void check_all(const Family& family, Layouts asked) {
  at::set_num_threads(1);
  const auto all = layouts();
  for (const bool with_adapters : {false, true}) {
    const auto reference = alone(family, with_adapters);
    const auto& answers = reference.asked.answers;
    REQUIRE(answers.answers.size() == 5);
    for (const auto& answer : answers.answers) CHECK(answer.text.empty() == (answer.index == at_once));
    CHECK(score(answers, "exact_match") == 20);
    CHECK(score(answers, "f1") > 20);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (is_asked(asked, i, with_adapters) && (family.plugin == "mixtral" || !all[i].needs_experts))
        check(family, with_adapters, all[i], reference);
    }
  }
}

}  // namespace

TEST_CASE("a mixture answers the same however strategies share it", "[matrix][train][inference]") {
  check_all(mixture(), Layouts::even_with_adapters);
}

TEST_CASE("a dense model answers the same however strategies share it", "[matrix][train][inference]") {
  check_all(dense(), Layouts::odd_with_adapters);
}

TEST_CASE("answers are the same on every layout, with adapters and without", "[.][full][matrix][train][inference]") {
  for (const auto* family : {&mixture(), &dense()}) check_all(*family, Layouts::all_of_them);
}

}  // namespace generate_composition_test
