// A teacher's words from the data on a GPU, in eager micro-steps and in CUDA graphs. Hidden from a plain run:
// test_end_to_end '[.gpu]'.
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "end_to_end/gpus.h"
#include "end_to_end/program.h"
#include "end_to_end/results.h"
#include "end_to_end/run_to_end.h"

namespace gpu_teacher_test {

using namespace end_to_end;
using capstan::cat;

namespace {

constexpr int words = 4;

// Lines of several lengths with words that follow from the letters.
std::string lines() {
  std::string text;
  for (int i = 0; i < 48; ++i) {
    const std::string answer(static_cast<std::size_t>(3 + i % 20), static_cast<char>('a' + i % 26));
    auto ids = Json::array(), logs = Json::array();
    for (std::size_t token = 0; token <= answer.size(); ++token) {
      const int first = 'a' + (i + static_cast<int>(token)) % 20;
      ids.push_back({first, first + 1, first + 2, first + 3});
      logs.push_back({-0.5, -1.5, -2.5, -4.0});
    }
    text += Json{{"prompt", cat("line ", i, ": ")},
                 {"completion", answer},
                 {"teacher_words", ids},
                 {"teacher_log_probabilities", logs}}
                .dump() +
            "\n";
  }
  return text;
}

std::string config(const std::string& file) {
  return cat(
      "[run]\nseed = 3\ndevice = \"cuda\"\ndeterministic = true\n[model]\nplugin = \"llama\"\nvocab_size = 1024\n",
      "hidden_size = 128\nnum_layers = 2\nnum_heads = 2\nff_dim = 256\nseq_length = 64\n[data]\nplugin = "
      "\"jsonl\"\ntrain = \"",
      file, "\"\nmax_length = 64\nteacher_words = ", words,
      "\n[train]\nmax_steps = 10\nmicro_batch = 4\nglobal_batch = 8\n",
      "accumulation = 2\npad_to_multiple = 64\nprecision = \"bf16\"\n[optimizer]\nlr = 1e-2\n[objective]\nplugin = "
      "\"distill\"\n",
      "teacher = \"data\"\ntop_k = ", words, "\n");
}

}  // namespace

TEST_CASE("a GPU learns a teacher's words from the data in CUDA graphs as it does without them", "[.gpu][graphs]") {
  if (too_few_gpus(1)) return;
  const Workspace work;
  const auto text = config(work.write("lines.jsonl", lines()));
  const auto eager = run_to_end(work, {.name = "eager", .config = text, .overrides = {"train.cuda_graphs=off"}});
  const auto graphs = run_to_end(work, {.name = "graphs", .config = text});
  CHECK(count(capstan::read_file(work.folder() / "runs/graphs/logs/rank-0.log"), "run as a CUDA graph") > 0);
  REQUIRE(eager.steps.size() == 10);
  for (const char* key : {"loss", "grad_norm", "divergence", "cross_entropy"}) CHECK(graphs.all(key) == eager.all(key));
  CHECK(eager.all("divergence").back() < eager.all("divergence").front());
  CHECK(bit_equal(read_weights(work.folder() / "runs/graphs"), read_weights(work.folder() / "runs/eager")));
}

}  // namespace gpu_teacher_test
