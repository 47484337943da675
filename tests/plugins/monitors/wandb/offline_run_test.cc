#include "plugins/monitors/wandb/offline_run.h"

#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan_catch.h>

#include <map>
#include <optional>

#include "support/folder.h"

namespace offline_run_test {

using namespace capstan::monitor;
using namespace wandb;

namespace {

RunStarted started(const test::Folder& folder, std::map<std::string, std::string> variables = {}) {
  RunStarted run;
  run.name = "small";
  run.folder = folder.path().string();
  run.hosts = {"gpu1"};
  run.settings = {{"train", "micro_batch", std::int64_t{4}, {}}};
  run.environment = [variables](const std::string& name) -> std::optional<std::string> {
    // The monitor may not ask for a key.
    CHECK(name.find("KEY") == std::string::npos);
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  return run;
}

std::string log_of(const OfflineRun& run) {
  const auto name = run.folder().filename().string();
  return capstan::read_file(run.folder() / ("run-" + name.substr(name.rfind('-') + 1) + ".wandb"));
}

}  // namespace

TEST_CASE("a run has its folder, log, files and the line that sends it") {
  const test::Folder folder;
  OfflineRun run({}, started(folder), {});
  run.log({{"train/loss", 1.5}});
  RunEnded ended;
  ended.summary.texts = {{"mfu_formula", "a / b"}};
  const auto line = run.finish(ended);
  CHECK(line == "wandb sync '" + run.folder().string() + "'");
  CHECK(run.folder().parent_path() == folder.path() / "wandb");
  CHECK_THAT(run.folder().filename().string(), Catch::Matchers::StartsWith("offline-run-2"));
  const auto log = log_of(run);
  CHECK(log.substr(0, 7) == std::string(":W&B\xE1\xBE\0", 7));
  CHECK_THAT(log, Contains("capstan") && Contains("small") && Contains("train.micro_batch") && Contains("train/loss"));
  CHECK(capstan::read_file(run.folder() / "files/config.yaml").starts_with("train.micro_batch:\n  value: 4\n"));
  CHECK_THAT(capstan::read_file(run.folder() / "files/wandb-summary.json"),
             Contains("\"train/loss\": 1.5") && Contains("\"mfu_formula\": \"a / b\""));
}

TEST_CASE("options count more than the environment, which counts more than the run") {
  const test::Folder folder;
  const std::map<std::string, std::string> variables{
      {"WANDB_PROJECT", "from-env"}, {"WANDB_NAME", "env-name"}, {"WANDB_DIR", (folder / "elsewhere").string()}};
  const OfflineRun by_env({}, started(folder, variables), {});
  CHECK_THAT(log_of(by_env), Contains("from-env") && Contains("env-name"));
  CHECK(by_env.folder().parent_path() == folder / "elsewhere" / "wandb");
  const OfflineRun by_option({.project = "chosen", .name = "mine"}, started(folder, variables), {});
  CHECK_THAT(log_of(by_option), Contains("chosen") && Contains("mine") && !Contains("from-env"));
}

TEST_CASE("a run is offline, unless the option or else the environment says otherwise") {
  const auto mode = [](const std::optional<std::string>& option, const std::string& variable) {
    return mode_of({.mode = option}, [&](const std::string& name) -> std::optional<std::string> {
      return name == "WANDB_MODE" && !variable.empty() ? std::optional(variable) : std::nullopt;
    });
  };
  CHECK(mode({}, "") == Mode::offline);
  CHECK(mode({}, "dryrun") == Mode::offline);
  CHECK(mode({}, "online") == Mode::online);
  CHECK(mode("online", "") == Mode::online);
  CHECK(mode("online", "offline") == Mode::online);
  CHECK(mode("offline", "online") == Mode::offline);
  CHECK(mode("online", "disabled") == Mode::disabled);
  CHECK(mode_of({}, {}) == Mode::offline);
}

TEST_CASE("a run that resumes keeps its id and says so") {
  const test::Folder folder;
  const OfflineRun first({}, started(folder), {});
  auto again = started(folder);
  again.first_step = 5;
  OfflineRun second({}, again, {});
  const auto id = [](const OfflineRun& run) { return run.folder().string().substr(run.folder().string().size() - 8); };
  CHECK(id(first) == id(second));
  CHECK_THAT(second.finish({}), Catch::Matchers::StartsWith("(before wandb 0.30 with --append) wandb sync '"));
}

TEST_CASE("a run that resumes keeps its id in a folder that it shares with others") {
  const test::Folder mine, others, shared;
  const WandbOptions options{.folder = shared.path().string()};
  const OfflineRun first(options, started(mine), {});
  const OfflineRun other(options, started(others), {});
  auto again = started(mine);
  again.first_step = 5;
  const OfflineRun second(options, again, {});
  CHECK(first.log_file().filename() == second.log_file().filename());
  CHECK(first.log_file().filename() != other.log_file().filename());
}

TEST_CASE("a run that fails says so in its folder, which can be sent") {
  const test::Folder folder;
  OfflineRun run({}, started(folder), {});
  run.log({{"train/loss", 1.5}});
  const auto before = log_of(run);
  CHECK(run.fail() == "wandb sync '" + run.folder().string() + "'");
  // Its exit record has the code 1: field 18 of a record, in which field 1 is the code.
  CHECK_THAT(log_of(run).substr(before.size()), Contains(std::string("\x08\x01", 2)));
}

TEST_CASE("system metrics come with steps, not with each") {
  const test::Folder folder;
  int asked = 0;
  const auto system = [&] {
    ++asked;
    return Values{{"gpu.0.gpu", 99}};
  };
  OfflineRun seldom({.system_interval_s = 1000}, started(folder), system);
  for (int i = 0; i < 5; ++i) seldom.log({{"train/loss", 1}});
  CHECK(asked == 1);
  CHECK_THAT(log_of(seldom), Contains("gpu.0.gpu"));
}

TEST_CASE("a folder that cannot be written to is named") {
  const test::Folder folder;
  folder.write("file", "");
  CHECK_THROWS_AS(OfflineRun({.folder = (folder / "file").string()}, started(folder), {}), capstan::FileError);
}

}  // namespace offline_run_test
