// Plugins that somebody else could have written.
#include "plugin/ownership.h"

#include <capstan_catch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <capstan/plugin/host.h>
#include "plugin/fixtures.h"
#include "support/folder.h"

namespace ownership_test {

using namespace capstan::plugin;

namespace {

std::string refusal(const std::string& file) {
  return test::error_of([&] { refuse_writable(file); });
}

}  // namespace

TEST_CASE("a plugin that others may write is refused, as ssh refuses keys") {
  const test::Folder folder;
  const auto file = (folder / "good.so").string();
  std::filesystem::copy_file(test::fixture("good"), file);
  REQUIRE(::chmod(file.c_str(), 0755) == 0);
  CHECK(refusal(file).empty());
  REQUIRE(::chmod(file.c_str(), 0757) == 0);
  CHECK_THAT(refusal(file), Contains(file + ": this plugin may be written by every user of this machine") &&
                                Contains("chmod go-w " + file) && Contains("CAPSTAN_TRUST_PLUGINS=1"));
  CHECK_THROWS_WITH(Host().load_file(file), Contains("may be written by every user"));
  CHECK(Host({}, false, /*trusts_writers=*/true).load_file(file).name == "good");
  REQUIRE(::chmod(file.c_str(), 0755) == 0);
  REQUIRE(::chmod(folder.path().c_str(), 0777) == 0);
  CHECK_THAT(refusal(file), Contains("the folder of this plugin may be written by every user"));
  REQUIRE(::chmod(folder.path().c_str(), 01777) == 0);
  CHECK(refusal(file).empty());
}

TEST_CASE("a plugin of another user, and one of a group, is refused") {
  if (::geteuid() != 0) return;  // only root can give files away
  const test::Folder folder;
  const auto file = (folder / "good.so").string();
  std::filesystem::copy_file(test::fixture("good"), file);
  REQUIRE(::chmod(file.c_str(), 0755) == 0);
  REQUIRE(::chown(file.c_str(), 12345, 12345) == 0);
  CHECK_THAT(refusal(file), Contains("may be written by user 12345, to whom it belongs"));
  REQUIRE(::chown(file.c_str(), 0, 12345) == 0);
  CHECK(refusal(file).empty());
  REQUIRE(::chmod(file.c_str(), 0775) == 0);
  CHECK_THAT(refusal(file), Contains("may be written by every member of group 12345"));
}

TEST_CASE("a plugin is refused where others may write to any folder above it, also by a link") {
  const test::Folder folder;
  std::filesystem::create_directories(folder / "open/mine/monitor");
  const auto file = (folder / "open/mine/monitor/good.so").string();
  std::filesystem::copy_file(test::fixture("good"), file);
  for (const auto* path : {"open", "open/mine", "open/mine/monitor", "open/mine/monitor/good.so"})
    REQUIRE(::chmod((folder / path).c_str(), 0755) == 0);
  CHECK(refusal(file).empty());
  const auto above = (folder / "open").string();
  REQUIRE(::chmod(above.c_str(), 0777) == 0);
  const auto said = "the folder " + above + ", which leads to this plugin, may be written by every user";
  CHECK_THAT(refusal(file), Contains(file + ": " + said) && Contains("chmod go-w " + above + ", or copy"));
  CHECK_THROWS_WITH(Host().load_file(file), Contains(said));
  CHECK(Host({}, false, /*trusts_writers=*/true).load_file(file).name == "good");

  // From a folder that is safe, and to one.
  std::filesystem::create_symlink(file, folder / "good.so");
  CHECK_THAT(refusal((folder / "good.so").string()), Contains(said));
  std::filesystem::create_directories(folder / "safe");
  std::filesystem::copy_file(test::fixture("good"), folder / "safe/good.so");
  std::filesystem::create_directory_symlink(folder / "safe", folder / "open/mine/link");
  CHECK_THAT(refusal((folder / "open/mine/link/good.so").string()), Contains(said));
  std::filesystem::current_path(folder / "open/mine");
  CHECK_THAT(refusal("monitor/good.so"), Contains(said));
  std::filesystem::current_path("/");

  REQUIRE(::chmod(above.c_str(), 01777) == 0);
  CHECK(refusal(file).empty());
  if (::geteuid() != 0) return;  // only root can give files away
  REQUIRE(::chmod(above.c_str(), 0755) == 0);
  REQUIRE(::chown(above.c_str(), 12345, 0) == 0);
  CHECK_THAT(refusal(file), Contains("may be written by user 12345, to whom it belongs"));
}

TEST_CASE("entries of a plugin folder that cannot be read are named, and the others load") {
  const test::Folder folder;
  std::filesystem::create_directories(folder / "monitor");
  std::filesystem::copy_file(test::fixture("good"), folder / "monitor/good.so");
  std::filesystem::create_symlink("b.so", folder / "monitor/a.so");
  std::filesystem::create_symlink("a.so", folder / "monitor/b.so");
  Host host({folder.path()});
  int usable = 0;
  int loops = 0;
  for (const auto& found : host.discover()) {
    if (found.file.find(folder.path().string()) != 0) continue;
    usable += found.problem.empty() ? 1 : 0;
    loops += found.problem.find("ELOOP") != std::string::npos ? 1 : 0;
  }
  CHECK(usable == 1);
  CHECK(loops == 2);
}

}  // namespace ownership_test
