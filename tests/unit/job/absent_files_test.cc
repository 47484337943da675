// What is predicted where files of the model and the data are not there yet.
#include "job/open_tokenizer.h"

#include <capstan/base/text.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include "job/job.h"
#include "support/folder.h"

namespace absent_files_test {

using namespace capstan;

namespace {

std::optional<job::Job> job_of(const std::string& file, int ranks, bool may_lack, std::string& faults,
                               const std::vector<std::string>& overrides = {}) {
  static plugin::Host host;
  setup::JobRequest request;
  request.file = file;
  request.overrides = overrides;
  request.world_size = ranks;
  request.device = "cuda";
  request.activations = true;
  request.may_lack_files = may_lack;
  request.any_host_memory = true;
  Diagnostics found;
  auto job = job::prepare(request, host, found);
  faults = found.empty() ? "" : Error(found.list()).what();
  return job;
}

std::string config_file(const std::string& name) { return cat(CAPSTAN_SOURCE_DIR, "/configs/", name); }

// As on a machine with nothing but the configurations.
const std::vector<std::string> absent{"data.train=/nowhere/train.json", "data.eval=/nowhere/eval.json"};

}  // namespace

TEST_CASE("models of the workshop are predicted by their presets before they are downloaded") {
  for (const auto& [file, preset, ranks] :
       {std::tuple{"workshop/baseline.toml", "bloom-560m", 1},
        {"llama31_8b.toml", "llama3.1-8b", 8},
        {"workshop/nemo/data_parallel/mixtral_8x7b_lora.toml", "mixtral-8x7b", 2}}) {
    INFO(file);
    std::string faults;
    const auto job = job_of(config_file(file), ranks, true, faults, absent);
    INFO(faults);
    REQUIRE(job);
    CHECK(job->prediction.activations);
    CHECK_THAT(job->lacking(), Contains("not there yet, and a run needs it: model.path (") &&
                                   Contains("data.train (\"/nowhere/train.json\")") &&
                                   Contains(cat("the sizes of preset \"", preset, "\" stand in for ")) &&
                                   Contains("samples were taken to be "));
    CHECK_THAT(job->text(), !Contains("training samples"));
  }
}

TEST_CASE("the same files are faults where a run is meant") {
  std::string faults;
  CHECK(!job_of(config_file("workshop/baseline.toml"), 1, false, faults, absent));
  CHECK_THAT(faults, Contains("no model bigscience/bloom-560m") && Contains("hf download bigscience/bloom-560m"));
}

TEST_CASE("a model that no preset knows is a fault") {
  std::string faults;
  CHECK(!job_of(config_file("workshop/baseline.toml"), 1, true, faults, {"model.path=bigscience/bloom-560"}));
  CHECK_THAT(faults, Contains("bloom-560"));
}

TEST_CASE("what is there and wrong stays a fault") {
  const test::Folder folder;
  const auto broken = folder.write("broken.json", "{");
  std::string faults;
  CHECK(!job_of(config_file("quickstart.toml"), 1, true, faults, {"data.train=" + broken, "run.device=cuda"}));
  CHECK_THAT(faults, Contains("broken.json"));
}

TEST_CASE("a prediction by preset and length is that of the model itself") {
  const test::Folder folder;
  const auto file = folder.write(
      "a.toml", cat("[model]\nplugin = \"bloom\"\n[data]\nplugin = \"squad\"\ntrain = \"", CAPSTAN_SOURCE_DIR,
                    "/configs/data/mini_squad_train.json\"\nmax_length = 512\ntokenizer = "
                    "\"byte\"\n[train]\nmax_steps = 1\nmicro_batch = 2\nprecision = "
                    "\"bf16\"\n"));
  std::string faults;
  const auto known = job_of(file, 1, false, faults, {"model.preset=bloom-560m"});
  INFO(faults);
  REQUIRE(known);
  const auto guessed = job_of(file, 1, true, faults, {"model.path=bigscience/bloom-560m", "data.train=/nowhere.json"});
  INFO(faults);
  REQUIRE(guessed);
  CHECK(layout::total_bytes(known->prediction.footprints, "cuda") ==
        layout::total_bytes(guessed->prediction.footprints, "cuda"));
}

}  // namespace absent_files_test
