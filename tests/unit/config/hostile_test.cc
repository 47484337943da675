// Configurations that are not written by hand, and folders that refuse.
#include <capstan_catch.h>
#include <sys/stat.h>

#include <capstan/config/options.h>
#include "config/document.h"
#include "config/files.h"
#include "support/ordinary_user.h"

using namespace capstan;
using namespace capstan::config;

namespace {

std::string faults_of(const std::string& file, const std::vector<std::string>& overrides = {}) {
  Diagnostics diagnostics;
  const auto error = test::error_of([&] { load(file, overrides, diagnostics); });
  return error.empty() ? test::text(diagnostics) : error;
}

std::string repeated(const std::string& part, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += part;
  return out;
}

}  // namespace

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

TEST_CASE("a dotted key as deep as no stack is refused with its line") {
  const test::WorkingFolder folder;
  folder.write("a.toml", "[train]\nmax_steps = 1\n" + repeated("a.", 50000) + "a = 1\n");
  CHECK_THAT(faults_of("a.toml"), Contains("a.toml:3: a key of more than 64 parts"));
  folder.write("b.toml", "[" + repeated("a.", 50000) + "a]\n");
  CHECK_THAT(faults_of("b.toml"), Contains("b.toml:1: a key of more than 64 parts"));
  folder.write("c.toml", "[run]\nx = {" + repeated("\"a\" . ", 50000) + "a = 1}\n");
  CHECK_THAT(faults_of("c.toml"), Contains("c.toml:2: a key of more than 64 parts"));
  CHECK_THAT(faults_of("", {repeated("a.", 20000) + "a=1"}), Contains("a key of more than 64 parts"));
  CHECK_THAT(faults_of("", {"run.x={" + repeated("a.", 20000) + "a=1}"}), Contains("a key of more than 64 parts"));
  folder.write("numbers.toml",
               "[optimizer]\nbetas = [" + repeated("0.9, ", 500) + "0.9]\nname = \"" + repeated("a.", 200) + "\"\n");
  CHECK(faults_of("numbers.toml").empty());
}

TEST_CASE("files that extend several others twice, and keys without end, are refused soon") {
  const test::WorkingFolder folder;
  folder.write("0.toml", "[train]\nmax_steps = 1\n");
  for (int i = 1; i <= 25; ++i) {
    const auto base = std::to_string(i - 1) + ".toml";
    folder.write(std::to_string(i) + ".toml", "extends = [\"" + base + "\", \"" + base + "\"]\n");
  }
  CHECK_THAT(faults_of("25.toml"), Contains("extends reads more than 200 files"));
  std::string many = "[train]\n";
  for (int i = 0; i < 200000; ++i) many += "k" + std::to_string(i) + " = 1\n";
  folder.write("many.toml", many);
  CHECK_THAT(faults_of("many.toml"), Contains("many.toml: it has 20000") && Contains("keys, more than"));
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
