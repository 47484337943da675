// data.max_length = "auto" and what is left out, through the program.
#include <capstan/base/files.h>
#include <capstan_catch.h>

#include "end_to_end/program.h"
#include "end_to_end/results.h"

namespace length_test {

using namespace end_to_end;

namespace {

// Samples of 4 to 43 bytes and an end token; the longest one has 44.
std::string lines() {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "{\"prompt\": \"" + std::string(3 + i, 'p') + "\", \"completion\": \"a\"}\n";
  return text;
}

std::string config(const std::string& data) {
  return "[run]\nname = \"lengths\"\ndevice = \"cpu\"\n[model]\nplugin = \"gpt\"\nvocab_size = 258\nhidden_size = 12\n"
         "num_layers = 1\nnum_heads = 2\nseq_length = 160\ndropout = 0.0\n[data]\nplugin = \"jsonl\"\n"
         "train = \"train.jsonl\"\n" +
         data + "[train]\nmax_steps = 2\nmicro_batch = 2\nglobal_batch = 4\n[optimizer]\nlr = 1e-3\n";
}

}  // namespace

TEST_CASE("max_length = \"auto\" is a number in check, plan and what a run leaves, on any number of ranks") {
  const Workspace work;
  work.write("train.jsonl", lines());
  const auto file = work.write("a.toml", config("max_length = \"auto\"\n"));
  const std::string said = "max_length auto: 49, the longest sample has 44 tokens";  // 48 columns of a row
  const auto checked = work.run({"check", file});
  INFO(checked.all());
  CHECK(checked.code == 0);
  CHECK_THAT(checked.out, Contains(said));
  const auto planned = work.run({"plan", file, "--gpus", "1", "--gpu", "h100-80g", "run.device=cuda"});
  INFO(planned.all());
  CHECK(planned.code == 0);
  CHECK_THAT(planned.out, Contains("65"));  // a GPU's rows have a multiple of 64 columns
  const auto ran = work.run({"run", "-n", "2", file});
  INFO(ran.all());
  REQUIRE(ran.code == 0);
  CHECK_THAT(ran.all(), Contains(said));
  const auto written = capstan::read_file(work.folder() / "runs/lengths/config.toml");
  CHECK_THAT(written, Contains("\nmax_length = 49"));
  CHECK(work.run({"eval", "runs/lengths", "--split", "train"}).code == 0);
  const auto looked = work.run({"data", file, "--show", "1"});
  INFO(looked.all());
  CHECK(looked.code == 0);
}

TEST_CASE("every rank leaves out the same lines, and a run says how many") {
  const Workspace work;
  work.write("train.jsonl", lines());
  const auto file = work.write("a.toml", config("max_length = 20\ntoo_long = \"drop\"\n"));
  const auto ran = work.run({"run", "-n", "2", file});
  INFO(ran.all());
  REQUIRE(ran.code == 0);
  CHECK_THAT(ran.err, Contains("train.jsonl: 24 of 40 lines have more than 20 tokens and are left out"));
  const auto looked = work.run({"data", file});
  CHECK_THAT(looked.out, Contains("16 samples in the split 'train'") &&
                             Contains("24 of 40 samples (60 %) are longer than max_length 20 and left out; 60 % of the "
                                      "tokens that bear loss are lost"));
  const auto summary = read_json(work.folder() / "runs/lengths/summary.json");
  CHECK(summary.at("steps_per_epoch") == 4);  // of 16 lines
}

}  // namespace length_test
