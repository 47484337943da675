#include "ranks/shared_folders.h"

#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "support/folder.h"

namespace {
using namespace capstan::ranks;  // NOLINT(google-build-using-namespace)
using capstan::cat;
namespace fs = std::filesystem;

TEST_CASE("folders under $HOME and full ones are warned of") {
  const test::Folder root;
  FolderFacts folders{root / "home/a/runs", root / "scratch/cache", true};
  const auto home = root / "home/a";
  fs::create_directories(home);
  auto warnings = folder_warnings(folders, home, 0);
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Contains(cat("run.dir = ", folders.run.string(), " lies under $HOME")));
  folders.in_slurm = false;  // a laptop
  CHECK(folder_warnings(folders, home, 0).empty());
  folders.in_slurm = true;
  CHECK(folder_warnings(folders, "", 0).empty());
  CHECK(folder_warnings({root / "home/another", {}, true}, home, 0).empty());
  warnings = folder_warnings({root / "x", {}, false}, home, 1e30);
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Contains(cat("run.dir = ", (root / "x").string(), " has ")) && Contains(" of free space"));
  CHECK(free_bytes(root / "not/there/yet") > 0);
}

}  // namespace
