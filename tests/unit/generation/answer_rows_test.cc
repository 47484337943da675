// Which rows take which prompts, and when; and that no answer depends on it.
#include "generation/answer_rows.h"

#include <capstan_catch.h>

#include <algorithm>

#include "generation/generate.h"
#include "support/small_run.h"

namespace answer_rows_test {

using namespace capstan;
using generation::AnswerRows;
using generation::Prompt;
using testing::prepare_small;
using testing::small_config;

namespace {

using Rows = std::vector<std::int64_t>;

std::vector<Prompt> prompts_of(const std::vector<std::int64_t>& lengths) {
  std::vector<Prompt> prompts;
  for (const auto length : lengths) {
    prompts.push_back(
        {std::vector<std::int64_t>(static_cast<std::size_t>(length), 65), static_cast<std::int64_t>(prompts.size())});
  }
  return prompts;
}

std::vector<std::int64_t> ids(const AnswerRows& rows, const Rows& some) {
  std::vector<std::int64_t> all;
  for (const auto row : some) all.push_back(rows.prompt(row).id);
  return all;
}

// Prompts of 3 to 90 tokens, and tokens of which each tenth ends an answer: some answers are short, some are not.
generation::Prompt some_prompt(std::int64_t i) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t t = 0; t < 3 + i * 37 % 88; ++t) tokens.push_back(32 + (t * t + 7 * i) % 90);
  return {tokens, i};
}

const execution::AnswerEnd one_of_ten{{}, [] {
                                        std::vector<std::int64_t> ids;
                                        for (std::int64_t id = 3; id < 261; id += 10) ids.push_back(id);
                                        return ids;
                                      }()};

// How often the model's first unit runs from now on.
std::shared_ptr<int> count_forwards(step::Session& session) {
  class Counter final : public strategy::UnitHooks {
   public:
    explicit Counter(std::shared_ptr<int> count) : count_(std::move(count)) {}
    void before_forward() override { ++*count_; }

   private:
    std::shared_ptr<int> count_;
  };
  auto count = std::make_shared<int>(0);
  session.runner->add_hooks(0, std::make_unique<Counter>(count));
  return count;
}

// Forwards where a batch of `rows` prompts, the longest first, runs until its longest answer has ended.
int forwards_of_whole_batches(generation::Generator& generator, std::vector<generation::Prompt> prompts,
                              std::size_t rows) {
  std::stable_sort(prompts.begin(), prompts.end(),
                   [](const auto& a, const auto& b) { return a.tokens.size() > b.tokens.size(); });
  const auto answers = generator.tokens(prompts, one_of_ten);
  int forwards = 0;
  for (std::size_t i = 0; i < answers.size(); i += rows) {
    std::size_t longest = 0;
    for (auto k = i; k < std::min(answers.size(), i + rows); ++k) longest = std::max(longest, answers[k].size() + 1);
    forwards += static_cast<int>(std::min<std::size_t>(longest, 40));
  }
  return forwards;
}

}  // namespace

TEST_CASE("the longest prompts begin first, those of a length in their order, and what fits no model never") {
  const auto prompts = prompts_of({5, 9, 0, 5, 21, 7, 20});
  AnswerRows rows(prompts, {3, 10, 20});
  CHECK(rows.count() == 3);
  CHECK(rows.longest() == 20);
  REQUIRE(rows.is_due());
  CHECK(rows.begin() == Rows{0, 1, 2});
  CHECK(ids(rows, {0, 1, 2}) == Rows{6, 1, 5});
  CHECK(rows.begin().empty());
  CHECK_FALSE(rows.is_due());
  rows.end(1);
  CHECK(rows.longest() == 5);
  CHECK(rows.begin() == Rows{1});
  CHECK(ids(rows, {0, 1, 2}) == Rows{6, 0, 5});
  rows.end(0);
  rows.end(2);
  CHECK(rows.begin() == Rows{0});
  CHECK(rows.prompt(0).id == 3);
  CHECK(rows.longest() == 1);
  CHECK_FALSE(rows.is_due());
}

TEST_CASE("prompts begin when a quarter of the rows is free, or when none would wait") {
  const auto prompts = prompts_of(std::vector<std::int64_t>(13, 4));
  AnswerRows rows(prompts, {8, 10, 20});
  CHECK(rows.begin().size() == 8);
  rows.end(5);
  CHECK_FALSE(rows.is_due());  // one of eight
  rows.end(2);
  REQUIRE(rows.is_due());
  CHECK(rows.begin() == Rows{2, 5});
  CHECK_FALSE(rows.is_due());
  rows.end(0);
  // Where another rank begins prompts, one may begin here too.
  CHECK(rows.begin() == Rows{0});
  for (const std::int64_t row : {3, 4, 6}) rows.end(row);
  CHECK(rows.begin() == Rows{3, 4});
  CHECK_FALSE(rows.is_due());  // nothing waits

  const auto few = prompts_of(std::vector<std::int64_t>(9, 4));
  AnswerRows last(few, {8, 10, 20});
  CHECK(last.begin().size() == 8);
  CHECK_FALSE(last.is_due());
  last.end(7);
  CHECK(last.is_due());  // one of eight, but none would wait
}

TEST_CASE("an answer ends at its last token or the model's last position; each is its prompt's") {
  const auto prompts = prompts_of({3, 9, 10});
  AnswerRows rows(prompts, {2, 4, 10});
  CHECK(rows.begin() == Rows{0, 1});  // the prompts of 10 and of 9 tokens
  CHECK(rows.missing() == 2);         // the last one is at no position
  CHECK(rows.append(0, 70) == Rows{70});
  CHECK_FALSE(rows.at(0).alive);
  CHECK(rows.append(1, 71) == Rows{71});
  CHECK(rows.missing() == 1);
  CHECK(rows.begin() == Rows{0});
  CHECK(rows.missing() == 4);
  for (const std::int64_t token : {1, 2, 3}) rows.append(0, token);
  CHECK(rows.missing() == 1);
  CHECK(rows.append(0, 4) == Rows{1, 2, 3, 4});
  CHECK_FALSE(rows.at(0).alive);
  CHECK(rows.append(1, 72) == Rows{71, 72});
  CHECK_FALSE(rows.at(1).alive);
  CHECK(rows.missing() == 0);
  CHECK(rows.answers() == std::vector<Rows>{{1, 2, 3, 4}, {71, 72}, {70}});
}

TEST_CASE("a rank without prompts has a row that never begins") {
  const std::vector<Prompt> none;
  AnswerRows rows(none, {4, 10, 20});
  CHECK(rows.count() == 1);
  CHECK(rows.longest() == 1);
  CHECK_FALSE(rows.is_due());
  CHECK(rows.begin().empty());
  CHECK(rows.missing() == 0);
  CHECK(rows.answers().empty());
}

TEST_CASE("where other ranks have more rows, so has this one, and those without a prompt never begin") {
  const auto prompts = prompts_of({3, 9});
  AnswerRows rows(prompts, {8, 4, 20, 5});
  CHECK(rows.count() == 5);
  REQUIRE(rows.is_due());
  CHECK(rows.begin() == Rows{0, 1});
  CHECK(rows.missing() == 4);
  for (const std::int64_t row : {0, 1}) rows.end(row);
  CHECK_FALSE(rows.is_due());
  CHECK(rows.begin().empty());
  CHECK(rows.missing() == 0);
}

TEST_CASE("a row that has ended takes another prompt: the answers are those of one at a time, in fewer forwards") {
  const std::string temperature = GENERATE(as<std::string>(), "0", "3");
  const auto with = [&](const std::string& rows) {
    return prepare_small(small_config(),
                         {"train.max_new_tokens=40", "train.temperature=" + temperature, "train.eval_batch=" + rows}, 1,
                         0);
  };
  const auto alone = with("1"), together = with("4");
  std::vector<generation::Prompt> prompts;
  for (std::int64_t i = 0; i < 24; ++i) prompts.push_back(some_prompt(i));
  std::vector<std::string> expected;
  int whole_batches = 0;
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    auto session = step::materialise(alone, communicator);
    generation::Generator generator(session);
    expected = generator.answer_batches(prompts, one_of_ten);
    for (std::size_t i = 0; i < prompts.size(); ++i)
      CHECK(generator.answer_batches({prompts[i]}, one_of_ten)[0] == expected[i]);
    whole_batches = forwards_of_whole_batches(generator, prompts, 4);
  });
  for (const std::int64_t ask_every : {1, 3, 8}) {
    comm::run_in_process(1, [&](comm::Communicator& communicator) {
      auto session = step::materialise(together, communicator);
      const auto forwards = count_forwards(session);
      CHECK(generation::Generator(session, ask_every).answer_batches(prompts, one_of_ten) == expected);
      INFO("asked every " << ask_every << ": " << *forwards << " forwards instead of " << whole_batches);
      if (temperature != "0" && ask_every == 1) CHECK(*forwards * 10 < whole_batches * 9);
    });
  }
}

TEST_CASE("ranks that share parameters begin prompts at the same time, however many each has") {
  at::set_num_threads(1);
  const std::vector<std::string> overrides{"train.max_new_tokens=20", "train.temperature=3", "train.eval_batch=2"};
  constexpr std::int64_t most = 9;
  std::vector<std::string> expected;
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    const auto job = prepare_small(small_config(), overrides, 1, 0);
    auto session = step::materialise(job, communicator);
    for (std::int64_t i = 0; i < most; ++i)
      expected.push_back(generation::Generator(session).answer_batches({some_prompt(i)}, one_of_ten).front());
  });
  constexpr int world = 3;
  const auto file = small_config("[strategy.fsdp]\nmode = \"full_shard\"\n");
  for (const std::int64_t ask_every : {1, 4}) {
    std::vector<int> forwards(world), begun(world);
    std::vector<std::vector<std::string>> answers(world);
    comm::run_in_process(world, [&](comm::Communicator& communicator) {
      const auto rank = static_cast<std::size_t>(communicator.world().rank);
      const auto own = rank * most / 2;  // 0, 4, 9
      const auto job = prepare_small(file, overrides, world, communicator.world().rank);
      auto session = step::materialise(job, communicator);
      const auto count = count_forwards(session);
      std::vector<generation::Prompt> prompts;
      for (std::size_t i = 0; i < own; ++i) prompts.push_back(some_prompt(static_cast<std::int64_t>(i)));
      answers[rank] =
          generation::Generator(session, ask_every).answer_batches(prompts, one_of_ten, [&] { ++begun[rank]; });
      forwards[rank] = *count;
    });
    for (const std::size_t own : {0U, 4U, 9U})
      CHECK(answers[own / 4] == std::vector<std::string>(expected.begin(), expected.begin() + static_cast<int>(own)));
    CHECK(forwards == std::vector<int>(world, forwards[0]));
    CHECK(begun == std::vector<int>(world, begun[0]));
  }
}

}  // namespace answer_rows_test
