// The commands that look at data and at what a model says: data, eval, generate.
#include <capstan/base/files.h>
#include <capstan_catch.h>

#include <map>

#include "end_to_end/program.h"
#include "end_to_end/results.h"

namespace looking_test {

using namespace end_to_end;
namespace fs = std::filesystem;

namespace {

// Trains the small model in runs/small.
void train(const Workspace& work) {
  const auto file = work.write("a.toml", small_config());
  const auto ran = work.run({"run", file, "train.max_steps=4", "train.generate_samples=-1", "train.max_new_tokens=5"});
  INFO(ran.all());
  REQUIRE(ran.code == 0);
}

}  // namespace

TEST_CASE("data prints samples with what bears no loss marked, and counts") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config());
  const auto shown = work.run({"data", file, "--show", "2", "--from", "1", "data.packing=true"});
  INFO(shown.all());
  REQUIRE(shown.code == 0);
  CHECK_THAT(shown.out, Contains("sample 1, id ") && Contains(" bear loss, prompt of ") && Contains("⟦Question: ") &&
                            Contains(" Answer:⟧ ") && Contains("these 2: ") && Contains("as one batch: 2 x ") &&
                            Contains("packed: ") && Contains("70 samples in the split 'train'\n"));
  CHECK_THAT(shown.out, Contains("tokens of a sample: shortest ") && Contains(" of 70 samples (") &&
                            Contains(" are longer than max_length 97 and cut; no token that bears loss is lost") &&
                            Contains("no two samples have the same tokens") && Contains("\ntokens "));
  const auto page = work.run({"data", file, "--split", "eval", "--html", "page.html"});
  CHECK(page.code == 0);
  CHECK_THAT(page.out, Contains("written: page.html"));
  CHECK_THAT(capstan::read_file(work.folder() / "page.html"),
             Contains("<h1>a.toml: eval</h1>") && Contains("<mark>") && Contains("<rect class=\"bar\""));
  const auto after = work.run({"data", file, "--from", "70"});
  CHECK(after.code == 2);
  CHECK(after.err ==
        "capstan: error\n--from 70 is after the last of 70 samples, which count from 0\n    fix: use --from 69 or "
        "less\n");
}

TEST_CASE("a conversation that is known by heart is answered exactly, and no further") {
  const Workspace work;
  work.write("chat.jsonl",
             R"({"id": "two", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}, )"
             R"({"role": "user", "content": "And"}, {"role": "assistant", "content": "So"}]})"
             "\n");
  const auto file = work.write(
      "a.toml",
      "[run]\nname = \"chat\"\ndevice = \"cpu\"\n[model]\nplugin = \"gpt\"\nvocab_size = 258\nhidden_size = 32\n"
      "num_layers = 1\nnum_heads = 2\nseq_length = 160\ndropout = 0.0\n[data]\nplugin = \"jsonl\"\n"
      "train = \"chat.jsonl\"\neval = \"chat.jsonl\"\nturn = \"<|im_start|>{role}\\n{content}<|im_end|>\\n\"\n"
      "[train]\nmax_steps = 60\nmicro_batch = 1\nglobal_batch = 1\ngenerate_samples = -1\nmax_new_tokens = 40\n"
      "[optimizer]\nlr = 1e-2\nweight_decay = 0.0\n");
  const auto ran = work.run({"run", file});
  INFO(ran.all());
  REQUIRE(ran.code == 0);
  const auto run = work.folder() / "runs/chat";
  CHECK(read_json(run / "predictions-eval.json").at("two") == "So");
  CHECK(read_json(run / "summary.json").at("evaluations").back().at("exact_match") == 100.0);
}

TEST_CASE(
    "eval of a run gives the numbers that the run ended with, on any number of ranks, and leaves its files alone") {
  const Workspace work;
  train(work);
  const auto run = work.folder() / "runs/small";
  const auto results = run / "evaluations";
  const auto summary = read_json(run / "summary.json");
  const auto& loss = summary.at("evaluations").at(0);
  const auto& scores = summary.at("evaluations").at(1);
  const auto predictions = capstan::read_file(run / "predictions-eval.json");
  CHECK(read_json(run / "predictions-eval.json").size() == 7);
  const std::vector<std::vector<std::string>> ways{{"eval", run.string()},
                                                   {"eval", run.string(), "-n", "2", "strategy.fsdp.mode=full_shard"}};
  std::map<fs::path, std::string> files;
  for (const auto& entry : fs::directory_iterator(run)) {
    if (entry.is_regular_file()) files[entry.path()] = capstan::read_file(entry.path());
  }
  for (const auto& way : ways) {
    const auto folder = results / (way.size() == 2 ? "weights" : "weights-2");
    const auto ran = way.size() == 2 ? work.run(way) : work.start(way);
    INFO(ran.all());
    REQUIRE(ran.code == 0);
    const auto evaluation = read_json(folder / "evaluation-eval.json");
    CHECK(evaluation.at("loss").get<double>() == Approx(loss.at("loss").get<double>()).epsilon(1e-6));
    CHECK(evaluation.at("answers") == 7);
    CHECK(evaluation.at("exact_match") == scores.at("exact_match"));
    CHECK(evaluation.at("f1") == scores.at("f1"));
    CHECK(evaluation.at("weights") == (run / "weights").string());
    CHECK(fs::exists(folder / "config.toml"));
    CHECK(capstan::read_file(folder / "predictions-eval.json") == predictions);
    CHECK_THAT(ran.out, Contains("eval: loss ") && Contains(" over 7 samples in ") && Contains("eval: exact_match ") &&
                            Contains("results: " + folder.string() + "\n"));
  }
  const auto few = work.run({"eval", run.string(), "--samples", "2"});
  INFO(few.all());
  REQUIRE(few.code == 0);
  CHECK(read_json(results / "weights-3/predictions-eval.json").size() == 2);
  for (const auto& [file, text] : files) CHECK(capstan::read_file(file) == text);
}

TEST_CASE("a checkpoint's evaluation has its name, and the run's files stay") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({}, "[checkpoint]\nevery_steps = 2\n"));
  REQUIRE(work.run({"run", file, "train.max_steps=4", "train.generate_samples=-1", "train.max_new_tokens=5"}).code ==
          0);
  const auto run = work.folder() / "runs/small";
  const auto predictions = capstan::read_file(run / "predictions-eval.json");
  const auto ran = work.run({"eval", "runs/small/checkpoints/step-00000002/"});
  INFO(ran.all());
  REQUIRE(ran.code == 0);
  CHECK(read_json(run / "evaluations/step-00000002/predictions-eval.json").size() == 7);
  CHECK(capstan::read_file(run / "predictions-eval.json") == predictions);
  CHECK_FALSE(fs::exists(run / "evaluation-eval.json"));
}

TEST_CASE("eval of a configuration evaluates what it starts from, in a folder of its own") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config());
  // Sizes that only training needs, and that don't fit here, are not looked at.
  const auto ran = work.run({"eval", file, "--samples", "2", "train.global_batch=7", "--split", "train"});
  INFO(ran.all());
  REQUIRE(ran.code == 0);
  const auto folder = work.folder() / "runs/small-eval";
  CHECK(read_json(folder / "evaluation-train.json").at("samples") == 70);
  CHECK(read_json(folder / "evaluation-train.json").at("answers") == 2);
  CHECK(read_json(folder / "predictions-train.json").size() == 2);
  CHECK(fs::exists(folder / "config.toml"));
  const auto without = work.write("b.toml", small_config({{"eval =", ""}, {"eval_samples", ""}}));
  const auto refused = work.run({"eval", without});
  CHECK(refused.code != 0);
  CHECK_THAT(refused.err,
             Contains("the configuration names no data for the split 'eval'\n    fix: set data.eval, or use "
                      "--split train"));
}

TEST_CASE("generate answers prompts with a run's weights, alike on any number of ranks") {
  const Workspace work;
  train(work);
  const auto alone = work.run({"generate", "runs/small", "Question: a", "b", "--set", "train.max_new_tokens=7"});
  INFO(alone.all());
  REQUIRE(alone.code == 0);
  CHECK(alone.out.size() > 2);
  const auto two = work.start({"generate", "runs/small", "Question: a", "b", "-n", "2", "--set",
                               "train.max_new_tokens=7", "strategy.fsdp.mode=full_shard"});
  INFO(two.all());
  REQUIRE(two.code == 0);
  CHECK(two.out == alone.out);
  const auto drawn = work.run({"generate", "runs/small", "b", "--set", "train.temperature=2", "run.seed=5"});
  REQUIRE(drawn.code == 0);
  CHECK(work.run({"generate", "runs/small", "b", "--set", "train.temperature=2", "run.seed=5"}).out == drawn.out);
  CHECK(work.run({"generate", "runs/small", "b", "--set", "train.temperature=2", "run.seed=6"}).out != drawn.out);
}

TEST_CASE("generate refuses prompts that no model could answer") {
  const Workspace work;
  train(work);
  const auto empty = work.run({"generate", "runs/small", "a", ""});
  CHECK(empty.code != 0);
  CHECK_THAT(empty.err, Contains("prompt 2 is empty, and this tokenizer puts nothing before a text"));
  const auto too_long = work.run({"generate", "runs/small", std::string(500, 'a')});
  CHECK(too_long.code != 0);
  CHECK_THAT(too_long.err, Contains("prompt 1 has 500 tokens, the model has 130 positions\n    fix: shorten it"));
  const auto nothing = work.run({"generate", "runs/small"});  // standard input is empty
  CHECK(nothing.code == 0);
  CHECK(nothing.out.empty());
  const auto none = work.run({"generate", "runs/none", "a"});
  CHECK(none.code == 2);
  CHECK_THAT(none.err, Contains("there is no folder ") && Contains("runs/none"));
  const auto no_run = work.run({"eval", "runs/none"});
  CHECK(no_run.code == 2);
  CHECK_THAT(no_run.err, Contains("there is no folder ") && Contains("runs/none"));
  const auto no_file = work.run({"eval", "none.toml"});
  CHECK(no_file.code == 2);
  CHECK_THAT(no_file.err,
             Contains("there is no none.toml\n    fix: name a configuration (TOML), a run's folder or one of"));
}

}  // namespace looking_test
