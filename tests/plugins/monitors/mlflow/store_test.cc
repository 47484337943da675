#include "plugins/monitors/mlflow/store.h"

#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan_catch.h>

#include <map>

#include "support/folder.h"

using namespace capstan::monitor;
using namespace mlflow;

namespace fs = std::filesystem;

namespace {

RunStarted started(const test::Folder& folder, std::map<std::string, std::string> variables = {}) {
  RunStarted run;
  run.name = "small";
  run.folder = folder.path().string();
  run.settings = {{"train", "micro_batch", std::int64_t{4}, {}}};
  run.environment = [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  return run;
}

std::vector<fs::path> runs(const fs::path& root) {
  std::vector<fs::path> found;
  for (const auto& experiment : fs::directory_iterator(root)) {
    for (const auto& entry : fs::directory_iterator(experiment.path())) {
      if (entry.is_directory()) found.push_back(entry.path());
    }
  }
  return found;
}

}  // namespace

TEST_CASE("names that MLflow does not take are changed") {
  CHECK(metric_name("train/loss") == "train/loss");
  CHECK(metric_name("avg_gpu_util_%") == "avg_gpu_util_percent");
  CHECK(metric_name("a[0]") == "a_0_");
}

TEST_CASE("a run has its options, its numbers by step, and its end") {
  const test::Folder folder;
  Store store({.interval_s = 0}, started(folder));
  CHECK(store.root() == folder / "mlruns");
  store.log(1, {{"train/loss", 2.5}});
  store.log(2, {{"train/loss", 1.5}});
  const auto run = runs(store.root()).at(0);
  CHECK(capstan::read_file(run / "params/train.micro_batch") == "4");
  const auto lines = capstan::read_file(run / "metrics/train/loss");
  CHECK_THAT(lines, Contains(" 2.5 1\n") && Contains(" 1.5 2\n"));
  CHECK_THAT(capstan::read_file(run / "meta.yaml"), Contains("status: 1\n") && Contains("end_time: null\n"));
  store.finish({});
  CHECK_THAT(capstan::read_file(run / "meta.yaml"), Contains("status: 3\n") && !Contains("end_time: null\n"));
}

TEST_CASE("numbers are gathered for a while, and none is lost at the end") {
  const test::Folder folder;
  Store store({.interval_s = 1000}, started(folder));
  for (int step = 1; step <= 3; ++step) store.log(step, {{"train/loss", step}});
  const auto file = runs(store.root()).at(0) / "metrics/train/loss";
  CHECK_THAT(capstan::read_file(file), Contains(" 1 1\n") && !Contains(" 3 3\n"));
  store.finish({});
  CHECK_THAT(capstan::read_file(file), Contains(" 1 1\n") && Contains(" 2 2\n") && Contains(" 3 3\n"));
}

TEST_CASE("a run that resumes continues its own, another run joins the experiment") {
  const test::Folder folder;
  const test::Folder other;
  const MlflowOptions options{.folder = (folder / "all").string(), .experiment = "workshop"};
  const Store first(options, started(folder));
  auto again = started(folder);
  again.first_step = 3;
  const Store second(options, again);
  CHECK(runs(folder / "all").size() == 1);
  const Store third(options, started(other));
  CHECK(runs(folder / "all").size() == 2);
  CHECK(std::distance(fs::directory_iterator(folder / "all"), fs::directory_iterator()) == 1);
}

TEST_CASE("the environment names folder, experiment and run where no option does") {
  const test::Folder folder;
  const auto uri = "file://" + (folder / "env").string();
  const Store store({}, started(folder, {{"MLFLOW_TRACKING_URI", uri}, {"MLFLOW_RUN_NAME", "mine"}}));
  CHECK(store.root() == folder / "env");
  CHECK(capstan::read_file(runs(folder / "env").at(0) / "tags/mlflow.runName") == "mine");
  const Store server({}, started(folder, {{"MLFLOW_TRACKING_URI", "https://mlflow.example.org"}}));
  CHECK(server.root() == folder / "mlruns");
}

TEST_CASE("a folder that cannot be written to is named") {
  const test::Folder folder;
  folder.write("file", "");
  CHECK_THROWS_AS(Store({.folder = (folder / "file").string()}, started(folder)), capstan::FileError);
}
