#include "cli/command.h"

#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <filesystem>

#include "plugin/fixtures.h"

using namespace capstan;

TEST_CASE("the folders of CAPSTAN_PLUGIN_PATH are searched, and an empty one is none") {
  const auto path = cat(":", test::fixture_folder().string(), ":");
  auto host = cli::plugin_host(launch::environment({{"CAPSTAN_PLUGIN_PATH", path}}));
  CHECK(std::filesystem::equivalent(host.load("monitor", "good").file, test::fixture("good")));
  auto own = cli::plugin_host(launch::environment({}));
  CHECK_THAT(test::error_of([&] { own.load("monitor", "good"); }), Contains("good"));
}
