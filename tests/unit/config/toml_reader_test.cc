#include "config/toml_reader.h"

#include <capstan_catch.h>

#include "config/loading.h"

namespace toml_reader_test {

using namespace capstan;
using namespace capstan::config;
using test::faults;
using test::faults_of;

namespace {

std::string repeated(const std::string& part, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += part;
  return out;
}

}  // namespace

TEST_CASE("a missing file names its neighbour, and broken TOML its line") {
  const test::WorkingFolder folder;
  folder.write("c/llama.toml", "");
  Diagnostics diagnostics;
  CHECK(test::error_of([&] { load("c/lama.toml", {}, diagnostics); }) ==
        "c/lama.toml: the file does not exist\n    fix: did you mean 'c/llama.toml'?");
  Diagnostics none;
  CHECK(test::error_of([&] { load("nowhere/a.toml", {}, none); }) == "nowhere/a.toml: the file does not exist");
  CHECK_THAT(faults("[train]\nmax_steps = = 3\n"), Contains("a.toml:2: not valid TOML: "));
  CHECK_THAT(faults("[train]\na = 1\na = 2\n"), Contains("a.toml:3: not valid TOML: ") && Contains("redefine"));
  CHECK_THAT(faults("[train\n"), Contains("a.toml:1: not valid TOML: in a table header: "));
  CHECK_THAT(faults("a = [1\n"), Contains("a.toml:1: not valid TOML: in an array: "));
  CHECK_THAT(faults("a = " + std::string(1000, '[')), Contains("not valid TOML: ") && !Contains("TOML_"));
}

TEST_CASE("values that no option can have are refused in words") {
  CHECK_THAT(faults("[train]\nx = 1979-05-27\n"), Contains("a.toml:2: train.x is a date or a time"));
  CHECK_THAT(faults("[train]\nx = [1, \"a\"]\n"), Contains("a.toml:2: train.x mixes types"));
  CHECK_THAT(faults("[train]\nx = [[1], [2]]\n"), Contains("a.toml:2: train.x is a list of lists"));
  CHECK_THAT(faults("[train]\nx = [true]\n"), Contains("a.toml:2: train.x is a list of booleans"));
  CHECK_THAT(faults("[[train.x]]\ny = 1\n"), Contains("a.toml:1: train.x is a list of tables"));
  CHECK_THAT(faults("[[strategy]]\nname = \"x\"\n"), Contains("a.toml:1: strategy is a list of tables"));
  const auto both = faults("[train]\nx = 1979-05-27\n[trian]\n");
  CHECK_THAT(both, Contains("a.toml:2") && Contains("a.toml:3"));
}

TEST_CASE("malformed overrides say how to write one") {
  const std::string form = "\n    fix: write it as table.option=value, for example train.max_steps=250\n";
  CHECK(faults("", {"train.max_steps"}) == "command line: 'train.max_steps' is no override: it has no '='" + form);
  CHECK(faults("", {"steps=3"}) == "command line: 'steps=3' names no option of a table" + form);
  CHECK(faults("", {"train.=3"}) == "command line: 'train.=3' names no option of a table" + form);
  CHECK(faults("", {"=3"}) == "command line: '=3' names no option of a table" + form);
  CHECK(faults("", {"trian.steps=3"}) ==
        "command line: unknown table [trian] in trian.steps\n    fix: did you mean 'train'?\n");
  CHECK_THAT(faults("", {"strategy.fsdp=true"}), Contains("command line: strategy.fsdp is true, but must be a table"));
  CHECK_THAT(faults("", {"train.x=[1, 2"}), Contains("command line: [1, 2 is not a TOML value: "));
  CHECK_THAT(faults("", {"train.x=2024-01-01"}), Contains("command line: train.x is a date or a time"));
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

}  // namespace toml_reader_test
