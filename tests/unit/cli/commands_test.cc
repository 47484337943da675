#include "cli/commands.h"

#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <filesystem>

#include "plugin/fixtures.h"

namespace commands_test {

using namespace capstan;

TEST_CASE("the folders of CAPSTAN_PLUGIN_PATH are searched, and an empty one is none") {
  const auto path = cat(":", test::fixture_folder().string(), ":");
  auto host = cli::plugin_host(launch::environment({{"CAPSTAN_PLUGIN_PATH", path}}));
  CHECK(std::filesystem::equivalent(host.load("monitor", "good").file, test::fixture("good")));
  auto own = cli::plugin_host(launch::environment({}));
  CHECK_THAT(test::error_of([&] { own.load("monitor", "good"); }), Contains("good"));
}

TEST_CASE("a slip in a command's name and a command that is not installed are told apart") {
  const std::vector<std::string> names{"run", "check", "report"};
  CHECK(cli::fix_of_unknown("chek", names) == "did you mean 'check'?");
  CHECK_THAT(cli::fix_of_unknown("memory", names),
             Contains("this installation lacks") && Contains("capstan/plugins/command/memory.so"));
}

}  // namespace commands_test
