// Answers of a batch whose rows take other prompts are those of one prompt at a time, whatever attention a model has.
#include <ATen/Parallel.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include <set>

#include "generation/generate.h"
#include "support/families.h"
#include "support/folder.h"
#include "support/small_run.h"

namespace answer_rows_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

// 17 prompts of 3 to 59 tokens; a tenth of the tokens ends an answer.
std::vector<std::string> answers(const Family& family, int rows) {
  at::set_num_threads(1);
  const test::Folder folder;
  const auto file =
      folder.write("a.toml", "[run]\nseed = 3\ndevice = \"cpu\"\n" + family_config(family, 80) +
                                 "[data]\nplugin = \"squad\"\ntrain = \"" CAPSTAN_SOURCE_DIR
                                 "/configs/data/mini_squad_train.json\"\n[train]\nmax_steps = 1\nprecision = \"fp64\"\n"
                                 "temperature = 1.5\nmax_new_tokens = 20\neval_batch = " +
                                 std::to_string(rows) + "\n");
  std::vector<generation::Prompt> prompts;
  for (std::int64_t i = 0; i < 17; ++i) {
    std::vector<std::int64_t> tokens;
    for (std::int64_t t = 0; t < 3 + i * 37 % 57; ++t) tokens.push_back(32 + (t * t + 7 * i) % 90);
    prompts.push_back({tokens, i});
  }
  execution::AnswerEnd end;
  for (std::int64_t id = 3; id < 261; id += 10) end.ids.push_back(id);
  std::vector<std::string> all;
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    const auto job = prepare_small(file, {}, 1, 0);
    auto session = step::materialise(job, communicator);
    all = generation::Generator(session).answer_batches(prompts, end);
  });
  return all;
}

}  // namespace

TEST_CASE("every family answers the same in rows that take other prompts, with windows too", "[inference]") {
  auto models = families();
  models.push_back({"llama",
                    "model_type = \"mistral\"\nsliding_window = 9\nhidden_size = 16\nnum_heads = 4\nnum_kv_heads = 2\n"
                    "ff_dim = 22\n"});
  for (const auto& family : models) {
    INFO(family.plugin << "\n" << family.options);
    const auto alone = answers(family, 1);
    std::set<std::size_t> lengths;
    for (const auto& answer : alone) lengths.insert(answer.size());
    CHECK(lengths.size() > 5);
    CHECK(answers(family, 3) == alone);
    CHECK(answers(family, 8) == alone);
  }
}

}  // namespace answer_rows_test
