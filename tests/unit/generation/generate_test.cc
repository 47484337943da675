// Generation: the same answers on any layout, draws that are keyed, and the same number of calls on every rank.
#include <ATen/ATen.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "generation/generate.h"
#include "step/evaluate.h"
#include "support/small_run.h"
#include "train/loop.h"

namespace generate_test {

using namespace capstan;
using testing::prepare_small;
using testing::small_config;

namespace {

const std::string eval_file = "data.eval=\"" CAPSTAN_SOURCE_DIR "/configs/data/mini_squad_eval.json\"";

struct Asked {
  execution::Evaluation answers;
  execution::Evaluation loss;
};

// All of the evaluation questions, on `world` ranks.
std::vector<Asked> ask(int world, const std::string& strategy, std::vector<std::string> overrides,
                       setup::Purpose purpose = setup::Purpose::evaluate) {
  at::set_num_threads(1);
  overrides.push_back(eval_file);
  overrides.emplace_back("train.max_new_tokens=6");
  const auto file = small_config(strategy);
  std::vector<Asked> all(static_cast<std::size_t>(world));
  comm::run_in_process(world, [&](comm::Communicator& communicator) {
    static std::mutex mutex;
    static plugin::Host host;
    std::optional<job::Job> prepared;
    {
      const std::lock_guard lock(mutex);
      Diagnostics diagnostics;
      setup::JobRequest request;
      request.file = file;
      request.overrides = overrides;
      request.world_size = world;
      request.rank = communicator.world().rank;
      request.purpose = purpose;
      prepared = job::prepare(request, host, diagnostics);
      diagnostics.throw_if_any();
    }
    const auto& job = *prepared;
    auto session = step::materialise(job, communicator);
    const step::Feed feed(job);
    step::Evaluator evaluator(session, feed);
    auto& mine = all[static_cast<std::size_t>(job.topology.rank)];
    mine.answers = generation::library().answers(session, *job.samples.eval, 29, nullptr);
    mine.loss = evaluator.loss(*job.samples.eval);
  });
  return all;
}

std::vector<std::string> texts(const execution::Evaluation& evaluation) {
  std::vector<std::string> out;
  for (const auto& answer : evaluation.answers) out.push_back(answer.id + ": " + answer.text);
  return out;
}

}  // namespace

TEST_CASE("answers are the same under every layout, drawn ones too", "[matrix]") {
  const std::string temperature = GENERATE(as<std::string>(), "0", "1.5");
  std::vector<std::string> overrides{"train.temperature=" + temperature, "train.eval_batch=3"};
  if (temperature != "0") overrides.emplace_back("train.top_p=0.95");
  const auto reference = ask(1, "", overrides).front();
  REQUIRE(reference.answers.answers.size() == 29);
  CHECK(reference.answers.samples == 29);
  const std::vector<std::pair<int, std::string>> layouts{
      {2, "[strategy.fsdp]\nmode = \"no_shard\"\n"},
      {2, "[strategy.fsdp]\nmode = \"shard_grad_op\"\n"},
      {3, "[strategy.fsdp]\nmode = \"full_shard\"\n"},
      {2, "[strategy.fsdp]\nmode = \"full_shard\"\ncpu_offload = true\n"},
      {4, "[strategy.fsdp]\nmode = \"hybrid_shard\"\nshard_size = 2\n"},
      {3, "[strategy.zero]\nstage = 1\n"},
      {2, "[strategy.zero]\nstage = 2\n"},
      {4, "[strategy.zero]\nstage = 3\n"}};
  for (const auto& [world, strategy] : layouts) {
    INFO("world " << world << "\n" << strategy);
    for (const auto& rank : ask(world, strategy, overrides)) {
      CHECK(texts(rank.answers) == texts(reference.answers));
      CHECK(rank.answers.scores == reference.answers.scores);
      CHECK(std::abs(rank.loss.loss - reference.loss.loss) <= 1e-12 * reference.loss.loss);
      CHECK(rank.loss.samples == reference.loss.samples);
    }
  }
  // A job that trains answers alike: what it leaves out for evaluation is nothing that counts.
  CHECK(texts(ask(1, "", overrides, setup::Purpose::train).front().answers) == texts(reference.answers));
}

TEST_CASE("how many prompts stand side by side changes no answer; top-p changes what is drawn") {
  const std::vector<std::string> drawn{"train.temperature=2"};
  const auto with = [&](const std::string& more) {
    auto overrides = drawn;
    overrides.push_back(more);
    return texts(ask(1, "", overrides).front().answers);
  };
  const auto reference = with("train.eval_batch=8");
  CHECK(with("train.eval_batch=1") == reference);
  CHECK(with("train.eval_batch=29") == reference);
  CHECK(with("train.top_p=1e-3") == texts(ask(1, "", {}).front().answers));  // one token leaves no choice
  CHECK(with("train.top_p=0.3") != reference);
  CHECK_THROWS_WITH(ask(1, "", {"train.top_p=0.3"}),
                    Contains("command line: train.top_p is below 1, but no token is drawn\n    fix: set "
                             "train.temperature, such as 0.7, or train.top_p = 1"));
}

TEST_CASE("draws are uniform, keyed by seed, prompt and position") {
  double sum = 0, squares = 0;
  constexpr int count = 4000;
  for (int i = 0; i < count; ++i) {
    const auto u = generation::draw(5, i % 50, i / 50);
    CHECK((u >= 0 && u < 1));
    sum += u;
    squares += u * u;
  }
  // The mean of 4000 uniform numbers has a standard deviation of 0.0046, that of their squares of 0.0047.
  CHECK(std::abs(sum / count - 0.5) < 0.02);
  CHECK(std::abs(squares / count - 1.0 / 3) < 0.02);
  CHECK(generation::draw(5, 1, 2) != generation::draw(5, 2, 1));
  CHECK(generation::draw(5, 1, 2) != generation::draw(6, 1, 2));
  CHECK(generation::draw(5, 1, 2) == generation::draw(5, 1, 2));
}

TEST_CASE("a token is chosen by temperature, top-p and the draw") {
  // Probabilities 0.5, 0.3, 0.15, 0.05 of tokens 2, 0, 3, 1.
  const auto logits = at::tensor(std::vector<double>{0.3, 0.05, 0.5, 0.15}, at::kDouble).log().unsqueeze(0);
  const auto chosen = [&](double temperature, double top_p, double draw) {
    return generation::choose_tokens(logits, {temperature, top_p, 0}, {draw}).item<std::int64_t>();
  };
  CHECK(chosen(0, 1, 0.99) == 2);
  CHECK(chosen(1, 1, 0) == 2);
  CHECK(chosen(1, 1, 0.49) == 2);
  CHECK(chosen(1, 1, 0.51) == 0);
  CHECK(chosen(1, 1, 0.79) == 0);
  CHECK(chosen(1, 1, 0.81) == 3);
  CHECK(chosen(1, 1, 0.96) == 1);
  // 0.5 + 0.3 are 0.8: the two make up all of it, 0.625 to 0.375.
  CHECK(chosen(1, 0.8, 0.62) == 2);
  CHECK(chosen(1, 0.79, 0.63) == 0);
  CHECK(chosen(1, 0.79, 0.9999999) == 0);
  CHECK(chosen(1, 0.5, 0.9999999) == 2);
  CHECK(chosen(1, 1e-9, 0.9999999) == 2);
  // Temperature 1/2 squares them: 0.25 / (0.25 + 0.09 + 0.0225 + 0.0025) = 0.6849.
  CHECK(chosen(0.5, 1, 0.68) == 2);
  CHECK(chosen(0.5, 1, 0.69) == 0);
  const auto tied = at::zeros({1, 4}, at::kFloat);
  CHECK(generation::choose_tokens(tied, {1, 1, 0}, {0.26}).item<std::int64_t>() == 1);
}

TEST_CASE("a generator skips prompts that are empty or too long, and stops where an answer ends") {
  const auto job = prepare_small(small_config(), {"train.max_new_tokens=40", "train.temperature=3"}, 1, 0);
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    auto session = step::materialise(job, communicator);
    generation::Generator generator(session);
    const generation::Prompt good{{65, 66, 67}, 4}, full{std::vector<std::int64_t>(130, 65), 0},
        too_long{std::vector<std::int64_t>(131, 65), 0};
    const auto texts = generator.answer_batches({good, {}, too_long, full});
    REQUIRE(texts.size() == 4);
    CHECK(texts[0].size() > 20);
    CHECK(texts[1].empty());
    CHECK(texts[2].empty());
    CHECK(generator.answer_batches({good}).front() == texts[0]);
    CHECK(generator.answer_batches({}).empty());
    // Where it first has the character that stands sixth.
    const auto end = [&](std::string_view text) { return text.find(texts[0][5]); };
    const auto cut = generator.answer_batches({good}, {end, {}}).front();
    CHECK(cut == texts[0].substr(0, texts[0].find(texts[0][5])));
    // Where it first has the token that stands sixth, which is no end token of the tokenizer.
    const auto ids = generator.tokens({good}).front();
    const auto stopped = generator.tokens({good}, {{}, {1000, ids[5]}}).front();
    CHECK(stopped == std::vector<std::int64_t>(ids.begin(), std::find(ids.begin(), ids.end(), ids[5])));
    CHECK(generator.answer_all({good, full, good}) == std::vector<std::string>{texts[0], texts[3], texts[0]});
  });
}

TEST_CASE("how far the device runs ahead of the host changes no answer") {
  const std::string temperature = GENERATE(as<std::string>(), "0", "3");
  const auto job = prepare_small(small_config(), {"train.max_new_tokens=11", "train.temperature=" + temperature}, 1, 0);
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    auto session = step::materialise(job, communicator);
    // The last two have no room for 11 tokens: the model has 130 positions.
    const std::vector<generation::Prompt> prompts{{{65, 66, 67}, 4},
                                                  {std::vector<std::int64_t>(40, 70), 1},
                                                  {std::vector<std::int64_t>(125, 65), 0},
                                                  {std::vector<std::int64_t>(130, 66), 2}};
    generation::Generator each(session, 1);
    const auto expected = each.tokens(prompts);
    CHECK(expected[0].size() == 11);
    CHECK(expected[2].size() == 6);  // the last one is at no position
    CHECK(expected[3].size() == 1);
    const execution::AnswerEnd at_token{{}, {expected[0][4]}};  // in the middle of blocks
    const auto text = job.samples.tokenizer.object->decode(expected[1]);
    const execution::AnswerEnd at_text{[&](std::string_view answer) { return answer.find(text[6]); }, {}};
    const auto cut = each.tokens(prompts, at_token);
    CHECK(cut[0].size() < 5);
    for (const std::int64_t ask_every : {2, 3, 8, 11, 50}) {
      INFO(ask_every);
      generation::Generator ahead(session, ask_every);
      CHECK(ahead.tokens(prompts) == expected);
      CHECK(ahead.tokens(prompts, at_token) == cut);
      CHECK(ahead.answer_batches(prompts, at_text) == each.answer_batches(prompts, at_text));
    }
  });
}

TEST_CASE("ranks that share parameters run ahead alike, however many prompts each has and where its answers end") {
  at::set_num_threads(1);
  const auto file = small_config("[strategy.fsdp]\nmode = \"full_shard\"\n");
  constexpr int world = 3;
  const auto prompt = [](std::int64_t id) {
    return generation::Prompt{std::vector<std::int64_t>(static_cast<std::size_t>(5 + 9 * id), 65 + id), id};
  };
  const auto generated = [&](std::int64_t ask_every) {
    std::vector<std::vector<std::vector<std::int64_t>>> all(world);
    comm::run_in_process(world, [&](comm::Communicator& communicator) {
      const auto rank = communicator.world().rank;
      const auto job = prepare_small(file, {"train.max_new_tokens=10", "train.temperature=3"}, world, rank);
      auto session = step::materialise(job, communicator);
      std::vector<generation::Prompt> prompts;  // rank 0 has none
      for (std::int64_t id = 0; id < rank; ++id) prompts.push_back(prompt(id + rank));
      generation::Generator generator(session, ask_every);
      const auto first = generator.tokens(prompts);
      const execution::AnswerEnd end{{},
                                     rank == 2 ? std::vector<std::int64_t>{first[0][4]} : std::vector<std::int64_t>{}};
      all[static_cast<std::size_t>(rank)] = generator.tokens(prompts, end);
    });
    return all;
  };
  const auto expected = generated(1);
  CHECK(expected[0].empty());
  CHECK(expected[1][0].size() == 10);
  CHECK(expected[2][0].size() < 5);
  CHECK(generated(4) == expected);
  CHECK(generated(8) == expected);
}

TEST_CASE("ranks that split layers take one rank's draws, whatever each of them would draw by itself") {
  at::set_num_threads(1);
  const auto* strategy = GENERATE("[strategy.tensor_parallel]\nsize = 2\n", "[strategy.context_parallel]\nsize = 2\n");
  INFO(strategy);
  const auto file = small_config(strategy);
  const std::vector<generation::Prompt> prompts{{{65, 66, 67}, 4}, {std::vector<std::int64_t>(20, 70), 1}};
  const auto generated = [&](const std::array<std::string, 2>& temperatures) {
    std::array<std::vector<std::vector<std::int64_t>>, 2> all;
    comm::run_in_process(2, [&](comm::Communicator& communicator) {
      const auto rank = communicator.world().rank;
      const auto temperature = "train.temperature=" + temperatures[static_cast<std::size_t>(rank)];
      const auto job = prepare_small(file, {"model.num_heads=2", "train.max_new_tokens=10", temperature}, 2, rank);
      auto session = step::materialise(job, communicator);
      all[static_cast<std::size_t>(job.topology.rank)] = generation::Generator(session).tokens(prompts);
    });
    return all;
  };
  // On CPUs the ranks' logits have the same bits. Another temperature makes another distribution of them, as logits
  // that differ would.
  const auto expected = generated({"3", "3"}), by_the_other = generated({"30", "30"});
  CHECK(expected[0].front().size() > 1);
  CHECK(expected[1] == expected[0]);
  CHECK(by_the_other[0] != expected[0]);
  CHECK(generated({"3", "30"}) == expected);
}

TEST_CASE("prompts are answered with others of their length, and answers stand in the prompts' order") {
  const auto job = prepare_small(
      small_config(), {"train.max_new_tokens=9", "train.temperature=3", "train.eval_batch=3", "train.top_p=0.9"}, 1, 0);
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    auto session = step::materialise(job, communicator);
    generation::Generator generator(session);
    std::vector<generation::Prompt> prompts;
    for (const std::int64_t length : {5, 90, 0, 7, 131, 60, 61, 6, 30, 5, 100}) {
      prompts.push_back({std::vector<std::int64_t>(static_cast<std::size_t>(length), 65 + length % 20),
                         static_cast<std::int64_t>(prompts.size())});
    }
    std::vector<std::string> expected;
    for (const auto& prompt : prompts) expected.push_back(generator.answer_batches({prompt}).front());
    int begun = 0;
    CHECK(generator.answer_batches(prompts, {}, [&] { ++begun; }) == expected);
    CHECK(begun >= 3);  // nine prompts by threes, or by fewer
    CHECK(generator.answer_all(prompts) == expected);
    CHECK(expected[2].empty());
    CHECK(expected[4].empty());
    CHECK(expected[0] != expected[9]);  // the same prompt with other draws
  });
}

TEST_CASE("questions leave room for a whole answer, so that none shows how long the expected one is") {
  const auto job = prepare_small(
      small_config(), {eval_file, "data.max_length=130", "train.max_new_tokens=40", "train.temperature=3"}, 1, 0);
  std::int64_t cut = 0;
  for (std::int64_t i = 0; i < job.samples.eval->size(); ++i) {
    const auto question = job.samples.question(*job.samples.eval, i);
    CHECK(question.prompt_length + 40 <= 130);
    CHECK(question.references == job.samples.sample(*job.samples.eval, i).references);
    cut += question.prompt_length + 40 == 130 ? 1 : 0;
  }
  CHECK(cut > 0);
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    auto session = step::materialise(job, communicator);
    const auto answers = generation::library().answers(session, *job.samples.eval, 5, nullptr).answers;
    REQUIRE(answers.size() == 5);
    for (const auto& answer : answers) {
      const auto asked = job.samples.question(*job.samples.eval, answer.index);
      CHECK(answer.prompt == job.samples.tokenizer.object->decode(asked.tokens));
    }
  });
}

TEST_CASE("an expected answer without a prompt is a question that is missed") {
  class Source final : public data::DataSource {
   public:
    std::int64_t size() const override { return 3; }
    data::Sample get(std::int64_t index) const override {
      if (index == 0) return {{65, 66}, {false, true}, 1, "asked", {"x"}};
      if (index == 1) return {{65, 66}, {true, true}, 0, "missed", {"y"}};
      return {{65, 66}, {true, true}, 0, "a text", {}};
    }
    monitor::Values score(const data::Sample& sample, const std::string& text) const override {
      return {{"asked", sample.id == "asked" ? 100.0 : 0.0}, {"empty", text.empty() ? 100.0 : 0.0}};
    }
  };
  const auto job = prepare_small(small_config(), {"train.max_new_tokens=3", "train.temperature=3"}, 1, 0);
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    auto session = step::materialise(job, communicator);
    const auto result = generation::library().answers(session, Source(), -1, nullptr);
    CHECK(result.samples == 2);
    CHECK(result.scores == monitor::Values{{"asked", 50.0}, {"empty", 50.0}});
    REQUIRE(result.answers.size() == 2);
    CHECK(result.answers[1].id == "missed");
    CHECK(result.answers[1].text.empty());
  });
}

TEST_CASE("predictions are the official JSON") {
  const auto text =
      execution::predictions_text({{0, "q1", "", " Paris ", {}}, {1, "a\"b", "", "", {}}, {2, "q3", "", "\xFF", {}}});
  CHECK(text == "{\n \"a\\\"b\": \"\",\n \"q1\": \"Paris\",\n \"q3\": \"\uFFFD\"\n}\n");
}

}  // namespace generate_test
