// configs/mixture.toml through the program: on one rank and on two, resumed, evaluated, looked at.
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>
#include <capstan/data_parts/subprocess.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include <cmath>
#include <string>
#include <vector>

#include "support/folder.h"

namespace program_test {

using namespace capstan;
using test::Folder;

namespace {

const std::string config = CAPSTAN_SOURCE_DIR "/configs/mixture.toml";

std::string run(const std::vector<std::string>& arguments, bool succeeds = true) {
  Program program;
  program.arguments = {CAPSTAN_BINARY_DIR "/bin/capstan"};
  program.arguments.insert(program.arguments.end(), arguments.begin(), arguments.end());
  program.most_output = 1 << 20;
  const auto ended = run_program(program);
  INFO(ended.output << ended.errors);
  CHECK(ended.succeeded() == succeeds);
  return ended.output + ended.errors;
}

std::vector<std::string> training(const Folder& folder, const std::string& name,
                                  const std::vector<std::string>& more = {}) {
  std::vector<std::string> words{"run",
                                 config,
                                 cat("run.dir=", folder.path().string()),
                                 "run.name=" + name,
                                 "train.max_steps=6",
                                 "train.eval_every=3",
                                 "checkpoint.every_steps=3"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// The lines of metrics.jsonl that have this key.
std::vector<Json> lines_with(const Folder& folder, const std::string& name, const std::string& key) {
  std::vector<Json> lines;
  for (const auto& line : split(read_file(folder / name / "metrics.jsonl"), '\n')) {
    if (line.empty()) continue;
    auto json = Json::parse(line);
    if (json.contains(key)) lines.push_back(std::move(json));
  }
  return lines;
}

double number(const Json& line, const std::string& key) { return line.at(key).get<double>(); }

}  // namespace

TEST_CASE("a mixture trains on any number of ranks, resumes with the same bits and is evaluated by source") {
  const Folder folder;
  const auto said = run(training(folder, "one"));
  CHECK_THAT(said, Contains("source 'reading': data.eval_fraction: 36 of 360 training samples are for evaluation") &&
                       Contains("source 'sums': 216 samples") && Contains("tokens in the mean of 216 samples"));
  run(training(folder, "two", {"-n", "2"}));
  const auto steps = lines_with(folder, "one", "share_sums"), others = lines_with(folder, "two", "share_sums");
  REQUIRE(steps.size() == 6);
  REQUIRE(others.size() == 6);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (const auto* key : {"loss", "loss_reading", "loss_sums", "share_reading", "share_sums"}) {
      INFO(key << " of step " << i);
      // Sums of float32 in another order, through six updates of AdamW.
      CHECK(std::abs(number(steps[i], key) - number(others[i], key)) < 1e-3);
    }
    // A batch of 16 has about one question of 120 tokens and 15 sums of 11: shares of a step are rough.
    CHECK(std::abs(number(steps[i], "share_sums") - 0.5) < 0.3);
  }
  const auto evaluations = lines_with(folder, "one", "split");
  REQUIRE(evaluations.size() == 2);
  for (const auto* key : {"loss", "loss_reading", "loss_sums"}) CHECK(evaluations.front().contains(key));

  const auto checkpoint = cat("checkpoint.resume=", (folder / "one/checkpoints/step-00000003").string());
  run(training(folder, "again", {checkpoint}));
  const auto resumed = lines_with(folder, "again", "share_sums");
  REQUIRE(resumed.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    for (const auto* key : {"loss", "loss_reading", "loss_sums", "share_sums"})
      CHECK(number(resumed[i], key) == number(steps[i + 3], key));
  }
  CHECK_THAT(run(training(folder, "other", {checkpoint, "data.sources.2.weight=2.0"}), false),
             Contains("data.sources is") && Contains("sources.2.weight = 2") && Contains("checkpoint.accept"));
  CHECK_THAT(run(training(folder, "other", {checkpoint, "data.eval_fraction=0.2"}), false),
             Contains("data.eval_fraction is 0.2, but 0.1"));
  CHECK_THAT(run({"eval", (folder / "one").string()}), Contains("loss_sums") && Contains("loss_reading"));
  CHECK_THAT(run({"data", config, "--split", "eval", "--show", "2"}), Contains("/"));
}

}  // namespace program_test
