// What a run's folder holds after a start that follows another one.
#include "train/run_folder.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "support/errors.h"
#include "support/folder.h"

namespace run_folder_test {

using namespace capstan;
using train::RunFolder;
namespace fs = std::filesystem;

namespace {

constexpr const char* steps = "{\"step\":3,\"loss\":1.0}\n{\"step\":4,\"split\":\"eval\",\"loss\":2.0}\n";
constexpr const char* of_eval = "{\"step\":4,\"split\":\"eval\",\"exact_match\":50.0}\n";
constexpr const char* of_train = "{\"step\":4,\"split\":\"train\",\"exact_match\":25.0}\n";
constexpr const char* earlier = "{\"step\":2,\"split\":\"eval\",\"exact_match\":10.0}\n";

// metrics.jsonl of a run that had such a one, and resumes after step 4.
std::string resumed(const std::string& metrics, const std::vector<std::string>& answers_again) {
  const test::Folder folder;
  folder.write("metrics.jsonl", metrics);
  RunFolder(folder.path(), 0).resume_after(4, answers_again);
  return read_file(folder / "metrics.jsonl");
}

}  // namespace

TEST_CASE("scores of answers that a run gives again do not stand in metrics.jsonl twice") {
  const auto all = cat(earlier, steps, of_train, of_eval);
  CHECK(resumed(all, {}) == all);
  CHECK(resumed(all, {"eval"}) == cat(earlier, steps, of_train));
  CHECK(resumed(all, {"train", "eval"}) == cat(earlier, steps));

  train::Statistics statistics;
  monitor::EvalEnded evaluation;
  evaluation.step = 4;
  evaluation.split = "eval";
  statistics.eval_ended(evaluation);
  evaluation.loss = 2.0;
  statistics.eval_ended(evaluation);
  statistics.drop_answers(4, {"train"});
  statistics.drop_answers(3, {"eval"});
  CHECK(statistics.evaluations.size() == 2);
  statistics.drop_answers(4, {"eval"});
  REQUIRE(statistics.evaluations.size() == 1);
  CHECK(statistics.evaluations[0].loss);
}

TEST_CASE("what a process that was killed left half written is removed, and nothing else") {
  const test::Folder folder;
  for (const auto* left : {"summary.json.tmp4711", "checkpoints/latest.tmp12"}) folder.write(left, "half");
  const std::vector<std::string> others{"summary.json", "notes.tmp", "a.tmp12b", "checkpoints/latest",
                                        "checkpoints/step-00000002/manifest.json.tmp5"};
  for (const auto& other : others) folder.write(other, "whole");
  fs::create_directories(folder / "model.tmp7");
  RunFolder::remove_unfinished(folder.path());
  CHECK_FALSE(fs::exists(folder / "summary.json.tmp4711"));
  CHECK_FALSE(fs::exists(folder / "checkpoints/latest.tmp12"));
  CHECK(fs::exists(folder / "model.tmp7"));
  for (const auto& other : others) CHECK(read_file(folder / other) == "whole");
  fs::remove_all(folder / "checkpoints");
  fs::create_symlink("checkpoints", folder / "checkpoints");  // a circle: somebody else's to say
  CHECK_NOTHROW(RunFolder::remove_unfinished(folder.path()));
}

TEST_CASE("a new folder gets a name that none has yet, or the error says what to do") {
  const test::Folder folder;
  const auto place = folder / "run/evaluations";
  CHECK(RunFolder::make_new(place, "weights", "") == place / "weights");
  CHECK(RunFolder::make_new(place, "weights", "") == place / "weights-2");
  CHECK(fs::is_empty(place / "weights"));
  const fs::path file = folder.write("file", "");
  CHECK_THAT(test::error_of([&] { RunFolder::make_new(file, "a", "look elsewhere"); }),
             Contains(file.string() + ": cannot make a folder for the run: ") && Contains("fix: look elsewhere"));
}

TEST_CASE("a run's files are not written through links that stand in their place") {
  const test::Folder folder;
  const fs::path other = folder.write("other", "{}\n");
  fs::create_directories(folder / "run");
  fs::create_symlink(other, folder / "run/predictions-eval.json");
  RunFolder(folder / "run", 0).predictions("eval", {{0, "id", "", "text", {}}});
  CHECK_FALSE(fs::is_symlink(folder / "run/predictions-eval.json"));
  fs::remove(folder / "run/metrics.jsonl");
  fs::create_symlink(other, folder / "run/metrics.jsonl");
  CHECK_THAT(test::error_of([&] { RunFolder(folder / "run", 0); }),
             Contains("run/metrics.jsonl: it is a link, and lines are not written through links"));
  CHECK(read_file(other) == "{}\n");
}

}  // namespace run_folder_test
