// Configurations that are not written by hand, and folders that refuse.
#include <capstan_catch.h>
#include <sys/stat.h>

#include <capstan/config/options.h>
#include "config/loading.h"
#include "support/ordinary_user.h"

namespace hostile_test {

using namespace capstan;
using namespace capstan::config;
using test::faults_of;

TEST_CASE("folders that this user may not open, links in a circle and long names have a sentence each") {
  const test::WorkingFolder folder;
  folder.write("locked/a.toml", "[train]\nmax_steps = 1\n");
  folder.write("extends.toml", "extends = \"locked/a.toml\"\n");
  std::filesystem::permissions("locked", std::filesystem::perms::none);
  std::filesystem::permissions(".", std::filesystem::perms::all);
  std::filesystem::create_symlink("one", "two");
  std::filesystem::create_symlink("two", "one");
  {
    const test::OrdinaryUser user;
    CHECK_THAT(faults_of("locked/a.toml"), Contains("locked/a.toml: cannot look at it: Permission denied (EACCES)"));
    CHECK_THAT(faults_of("extends.toml"), Contains("Permission denied (EACCES)"));
  }
  std::filesystem::permissions("locked", std::filesystem::perms::all);
  CHECK_THAT(faults_of("one"), Contains("one: cannot look at it: Too many levels of symbolic links (ELOOP)"));
  CHECK_THAT(faults_of(std::string(300, 'x') + ".toml"), Contains("File name too long (ENAMETOOLONG)"));
}

struct Place {
  std::string dir;
  static void describe(OptionTable<Place>& t) { t.add("dir", &Place::dir).path().doc(""); }
};

TEST_CASE("a zero byte is no part of any path") {
  Diagnostics faults;
  Options<Place>(Section{"run", {}, {{"dir", std::string("a\0b", 3), {}}}}, faults);
  CHECK_THAT(test::text(faults), Contains("run.dir is \"a\\u0000b\", but must be a path, which has no zero byte"));
}

}  // namespace hostile_test
