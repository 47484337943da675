#include "plugins/commands/import-axolotl/file.h"

#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include <cstdlib>
#include <filesystem>

#include "support/errors.h"
#include "support/folder.h"

namespace axolotl_file_test {

using namespace capstan;
using import_axolotl::read_yaml;

namespace {

// A Python with PyYAML; empty: there is none here.
const std::string& python() {
  static const auto found = [] {
    const std::string own = CAPSTAN_SOURCE_DIR "/.deps/venv5/bin/python3";
    for (const auto& one : {own, std::string("python3")}) {
      if (std::system(("'" + one + "' -c 'import yaml' > /dev/null 2>&1").c_str()) == 0) return one;
    }
    return std::string();
  }();
  if (found.empty()) WARN("no Python with PyYAML: YAML is not read here");
  return found;
}

std::string fault(const test::Folder& folder, const std::string& yaml) {
  const auto file = folder.write("a.yml", yaml);
  return test::error_of([&] { read_yaml(python(), file); });
}

}  // namespace

TEST_CASE("YAML is read with the lines of its keys") {
  if (python().empty()) return;
  const test::Folder folder;
  const auto file = read_yaml(python(), folder.write("a.yml",
                                                     "base_model: org/model # a comment\n\ndatasets:\n  - path: a\n"
                                                     "    type: alpaca\n  - {path: b}\nbf16: on\nlearning_rate: 2e-5\n"
                                                     "day: 2026-01-02\nempty:\n"));
  CHECK(file.value.at("datasets").size() == 2);
  CHECK(file.value.at("bf16") == true);
  CHECK(file.value.at("learning_rate") == "2e-5");
  CHECK(file.value.at("day") == "2026-01-02");
  CHECK(file.value.at("empty").is_null());
  CHECK(file.where("base_model") == file.name + ":1");
  CHECK(file.where("datasets[0].type") == file.name + ":5");
  CHECK(file.where("datasets[1].path") == file.name + ":6");
  CHECK(file.where("absent") == file.name);
  CHECK(file.from("bf16") == "bf16, line 7");
}

TEST_CASE("anchors and merged tables are read as YAML means them") {
  if (python().empty()) return;
  const test::Folder folder;
  const auto file = read_yaml(python(), folder.write("a.yml", "a: &a {x: 1, y: 2}\nb:\n  <<: *a\n  x: 3\n"));
  CHECK(file.value.at("b") == Json::parse(R"({"x": 3, "y": 2})"));
}

TEST_CASE("what is no YAML of a configuration is refused with its line") {
  if (python().empty()) return;
  const test::Folder folder;
  CHECK_THAT(fault(folder, "a: 1\nb: [1\nc: 2\n"), Contains("a.yml:3: it is not YAML: "));
  CHECK_THAT(fault(folder, "a: 1\nb: 2\na: 3\n"),
             Contains("a.yml:3: the key a stands twice in one table, in line 1 too"));
  CHECK_THAT(fault(folder, "a: !!python/object/apply:os.getcwd []\n"), Contains("could not determine a constructor"));
  CHECK_THAT(fault(folder, "a: .nan\n"), Contains("it has a value that is none of a configuration"));
  CHECK_THAT(fault(folder, "a: &a [*a]\n"),
             Contains("inside of too many others") || Contains("values, each alias counted"));
  CHECK_THAT(fault(folder, "- a\n"), Contains("it holds no table of keys"));
  CHECK_THAT(fault(folder, ""), Contains("it holds no table of keys"));
  CHECK_THAT(fault(folder, "a: \xff\xfe\n"), Contains("it is not YAML: "));
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i)
    bomb += cat("a", i, ": &a", i, " [*a", i - 1, ", *a", i - 1, ", *a", i - 1, ", *a", i - 1, ", *a", i - 1, "]\n");
  CHECK_THAT(fault(folder, bomb), Contains("it has more than 100000 values, each alias counted"));
}

TEST_CASE("a Python that is not there, or has no PyYAML, is said in one sentence") {
  const test::Folder folder;
  const auto file = folder.write("a.yml", "a: 1\n");
  CHECK_THAT(test::error_of([&] { read_yaml("/no/python3", file); }),
             Contains("it is read by Python: cannot start /no/python3") && Contains("--python"));
  const auto bare = folder.write("bare", "#!/bin/sh\nexec python3 -I -S \"$@\"\n");
  std::filesystem::permissions(bare, std::filesystem::perms::owner_all);
  CHECK_THAT(test::error_of([&] { read_yaml(bare, file); }),
             Contains("a.yml: this Python has no PyYAML: ") && Contains("name a Python 3 that has PyYAML"));
  CHECK_THAT(test::error_of([&] { read_yaml("", (std::filesystem::path(file).parent_path() / "none.yml").string()); }),
             Contains("none.yml: cannot read it: No such file or directory"));
}

}  // namespace axolotl_file_test
