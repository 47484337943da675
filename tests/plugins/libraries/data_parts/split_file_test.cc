#include <capstan/data_parts/split_file.h>

#include <capstan_catch.h>

#include <cstdint>
#include <optional>
#include <string>

#include "support/folder.h"

using namespace capstan;

namespace {

const data::FileKind questions{"questions", "a file of questions", "download it"};

data::SplitFile train_file(const std::string& path, std::optional<std::int64_t> samples = {}) {
  return {"data.train", "a.toml:3", path, "data.train_samples", "a.toml:4", samples};
}

}  // namespace

TEST_CASE("a split without a file is no fault, unless a number of its samples is asked for") {
  Diagnostics faults;
  CHECK_FALSE(train_file("").is_there(questions, faults));
  CHECK(faults.empty());
  CHECK_FALSE(train_file("", 5).is_there(questions, faults));
  REQUIRE(faults.size() == 1);
  CHECK(faults.list()[0].where == "a.toml:4");
  CHECK(faults.list()[0].fix == "set data.train");
}

TEST_CASE("a file that is not there is said at its option, with what to do") {
  const test::Folder folder;
  Diagnostics faults;
  CHECK(train_file(folder.write("a.json", "")).is_there(questions, faults));
  CHECK(faults.empty());
  const auto absent = (folder / "b.json").string();
  CHECK_FALSE(train_file(absent).is_there(questions, faults));
  REQUIRE(faults.size() == 1);
  CHECK(faults.list()[0].where == "a.toml:3");
  CHECK_THAT(faults.list()[0].what, Contains(absent));
  CHECK(faults.list()[0].fix == questions.absent);
}

TEST_CASE("a file is enough where it holds as many samples as are asked for") {
  Diagnostics faults;
  CHECK(train_file("a.json").is_enough(1, questions, faults));
  CHECK(train_file("a.json", 3).is_enough(3, questions, faults));
  CHECK(faults.empty());
  CHECK_FALSE(train_file("a.json").is_enough(0, questions, faults));
  CHECK_FALSE(train_file("a.json", 2).is_enough(1, questions, faults));
  REQUIRE(faults.size() == 2);
  CHECK(faults.list()[0].where == "a.toml:3");
  CHECK(faults.list()[1].where == "a.toml:4");
  CHECK(faults.list()[1].what.ends_with("holds 1 question"));
}

TEST_CASE("evaluation sets are called as their files are; names that are no word, or are there twice, are faults") {
  CHECK(data::names_of_sets({"a/dev.json", "hard.v2.jsonl", "/x/y"}) ==
        std::vector<std::string>{"dev", "hard.v2", "y"});
  Diagnostics faults;
  data::check_names_of_sets({"a/dev.json", "b/hard-2.json"}, "data.eval_files", "a.toml:5", faults);
  CHECK(faults.empty());
  data::check_names_of_sets({"a/dev.json", "b/dev.json", "hard.v2.jsonl"}, "data.eval_files", "a.toml:5", faults);
  REQUIRE(faults.size() == 2);
  CHECK(faults.list()[0].where == "a.toml:5");
  CHECK_THAT(faults.list()[0].what, Contains("two files of the name 'dev'"));
  CHECK_THAT(faults.list()[1].what, Contains("'hard.v2'"));
}

TEST_CASE("one split must have a file, whichever") {
  Diagnostics faults;
  data::require_file(train_file(""), train_file("a.json"), "a.toml:1", questions, faults);
  data::require_file(train_file("a.json"), train_file(""), "a.toml:1", questions, faults);
  CHECK(faults.empty());
  data::require_file(train_file(""), train_file(""), "a.toml:1", questions, faults);
  REQUIRE(faults.size() == 1);
  CHECK(faults.list()[0].where == "a.toml:1");
  CHECK(faults.list()[0].fix == "set data.train to a file of questions");
}
