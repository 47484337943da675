// Which splits are read: all of a run's, and of an evaluation's only the one that is evaluated.
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include "support/folder.h"
#include "support/job.h"
#include "support/small_run.h"

namespace samples_test {

using namespace capstan;

namespace {

job::Job job_for(const std::string& split, const std::vector<std::string>& overrides) {
  setup::JobRequest request;
  request.file = testing::small_config();
  request.overrides = overrides;
  request.purpose = setup::Purpose::evaluate;
  request.split = split;
  return testing::job_of(request);
}

}  // namespace

TEST_CASE("an evaluation needs only the files of its split") {
  const std::string data = CAPSTAN_SOURCE_DIR "/configs/data/mini_squad_";
  const std::string train = "data.train=" + data + "train.json", eval = "data.eval=" + data + "eval.json";
  const std::string no_train = "data.train=/nowhere/train.json", no_eval = "data.eval=/nowhere/eval.json";
  const std::string no_set = "data.eval_files=[\"/nowhere/hard.json\"]";
  const auto of_eval = job_for("eval", {no_train, eval, no_set});
  CHECK(of_eval.samples.train == nullptr);
  REQUIRE(of_eval.samples.eval);
  CHECK(of_eval.samples.eval_sets.empty());
  const auto of_train = job_for("train", {train, no_eval, "data.eval_samples=3", no_set});
  CHECK(of_train.samples.eval == nullptr);
  REQUIRE(of_train.samples.train);
  CHECK(of_train.samples.train->size() == 70);
  const auto absent = [&](const std::string& split, const std::vector<std::string>& overrides) {
    CHECK_THROWS_WITH(job_for(split, overrides), Contains("there is no file /nowhere/"));
  };
  absent("train", {no_train, eval});
  absent("eval", {train, no_eval});
  absent("", {no_train, eval});
  absent("", {train, eval, no_set});
  // What is wrong in other ways is said as before.
  CHECK_THROWS_WITH(job_for("eval", {eval, "data.train_sample=3"}), Contains("did you mean 'train_samples'?"));
}

TEST_CASE("a split is opened with what its tokenizer was read from and the model's folder") {
  tokenizer::Opened opened;
  const auto bytes = job::request_with(opened, "/models/a", {data::Split::eval, nullptr, 7, 300});
  CHECK(bytes.split == data::Split::eval);
  CHECK(bytes.max_length == 7);
  CHECK(bytes.model_folder == "/models/a");
  CHECK(bytes.tokenizer_folder.empty());
  CHECK(bytes.tokenizer_files.empty());
  class Files : public tokenizer::Opener {
    std::shared_ptr<const tokenizer::Tokenizer> open(const tokenizer::TokenizerRequest&) const override { return {}; }
    std::vector<std::filesystem::path> files(const tokenizer::TokenizerRequest& request) const override {
      return {request.file, request.model_folder / "more.txt"};
    }
  };
  opened.opener = std::make_shared<const Files>();
  opened.request = {"/models/a", "/tokens/b/tokenizer.json"};
  const auto files = job::request_with(opened, "/models/a", {});
  CHECK(files.tokenizer_folder == "/tokens/b");
  CHECK(files.tokenizer_files == std::vector<std::string>{"/tokens/b/tokenizer.json", "/models/a/more.txt"});
}

}  // namespace samples_test
