#include "ranks/shared_folders.h"

#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "support/folder.h"

namespace shared_folders_test {

namespace {
using namespace capstan::ranks;  // NOLINT(google-build-using-namespace)
using capstan::cat;
namespace fs = std::filesystem;

TEST_CASE("folders under $HOME and full ones are warned of") {
  const test::Folder root;
  const auto runs = root / "home/a/runs";
  const auto cache = root / "scratch/cache";
  const auto home = root / "home/a";
  fs::create_directories(home);
  auto warnings = folder_warnings(runs, cache, home, 0);
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Contains(cat("run.dir = ", runs.string(), " lies under $HOME")));
  CHECK(folder_warnings(runs, cache, "", 0).empty());  // a laptop
  CHECK(folder_warnings(root / "home/another", {}, home, 0).empty());
  warnings = folder_warnings(root / "not/there/yet", {}, "", 1e30);
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0],
             Contains(cat("run.dir = ", (root / "not/there/yet").string(), " has ")) && Contains(" of free space"));
}

}  // namespace

}  // namespace shared_folders_test
