// data.keep: which lines are used.
#include "plugins/libraries/records/jsonl_data.h"
#include "tokenizer/byte_tokenizer.h"

#include <capstan/base/files.h>
#include <capstan/base/log.h>
#include <capstan/base/paths.h>
#include <capstan_catch.h>

#include <cstdlib>

#include "support/errors.h"
#include "support/folder.h"
#include "support/options.h"

namespace filters_test {

using namespace capstan;
using namespace jsonl;
using Catch::Matchers::StartsWith;
using test::Folder;
using Values = testing::OptionValues;
using Texts = std::vector<std::string>;

namespace {

constexpr const char* lines =
    R"({"id": "a", "text": "one", "language": "en", "score": 3, "tags": ["math", 7], "day": "2024-05-01", "ok": true}
{"id": "b", "text": "two", "language": "de", "score": 4.5, "tags": [], "day": "2023-01-31", "meta": {"from": "web"}}
{"id": "c", "text": "three", "language": null, "score": 10, "tags": ["maths"], "day": "2024-12-01", "ok": false}
{"id": "d", "text": "four", "language": "en-GB", "score": -1, "meta.from": "book"}
)";

JsonlData data_of(const Folder& folder, const Texts& keep, Values more = {}, const std::string& text = lines) {
  more.insert(more.end(), {{"train", folder.write("a.jsonl", text)}, {"keep", keep}});
  return JsonlData(testing::options_of<JsonlOptions>("data", more));
}

std::string kept(const Texts& keep) {
  const Folder folder;
  const auto source =
      data_of(folder, keep).open({data::Split::train, std::make_shared<tokenizer::ByteTokenizer>(), 99, 258});
  std::string ids;
  for (std::int64_t i = 0; i < source->size(); ++i) ids += source->get(i).id;
  return ids;
}

std::string faults(const JsonlData& data) {
  Diagnostics diagnostics;
  data.check(diagnostics);
  std::string all;
  for (const auto& one : diagnostics.list()) all += one.text() + "\n";
  return all;
}

std::string fault(const Texts& keep, Values more = {}) {
  const Folder folder;
  return faults(data_of(folder, keep, std::move(more)));
}

}  // namespace

TEST_CASE("each sign keeps the lines that it says") {
  CHECK(kept({"language = en"}) == "a");
  CHECK(kept({"language == en"}) == "a");
  CHECK(kept({"language != en"}) == "bcd");  // null counts as absent, and is unequal
  CHECK(kept({"language has en"}) == "ad");
  CHECK(kept({"score > 3"}) == "bc");
  CHECK(kept({"score >= 3"}) == "abc");
  CHECK(kept({"score<3"}) == "d");
  CHECK(kept({"score <= 4.5"}) == "abd");
  CHECK(kept({"score = 3.0"}) == "a");
  CHECK(kept({"score = -1"}) == "d");
  CHECK(kept({"tags has math"}) == "a");
  CHECK(kept({"tags has 7"}) == "a");
  CHECK(kept({"day >= 2024-01-01"}) == "ac");
  CHECK(kept({"ok = true"}) == "a");
  CHECK(kept({"ok != true"}) == "bcd");
  CHECK(kept({"meta.from = web"}) == "b");
  CHECK(kept({"meta.from = book"}) == "d");  // a column's own name may have a dot
  CHECK(kept({"day >= 2024-01-01", "score > 3"}) == "c");
}

TEST_CASE("what is left is counted, named as in the file, and taken first for train_samples") {
  const Folder folder;
  const auto log = (folder / "log").string();
  log::configure(log, log::Level::error, 0);
  const auto data = data_of(folder, {"score > 3"}, {{"train_samples", std::int64_t{2}}},
                            std::string(lines) + "{\"text\": \"late\", \"score\": 9}\n");
  CHECK(faults(data).empty());
  const auto source = data.open({data::Split::train, std::make_shared<tokenizer::ByteTokenizer>(), 99, 258});
  log::configure("", log::Level::warning, 0);
  CHECK(source->size() == 2);
  CHECK(source->get(1).id == "c");
  const auto said = read_file(log);
  CHECK_THAT(said, Contains("a.jsonl: data.keep keeps 3 of 5 lines\n"));
  CHECK(said.find("keeps") == said.rfind("keeps"));
  CHECK_THAT(said, Contains("nothing reads these keys") && !Contains("'score'"));
  CHECK_THAT(fault({"score > 3"}, {{"train_samples", std::int64_t{4}}}),
             Contains("data.train_samples is 4, ") && Contains("holds 2 lines"));
}

TEST_CASE("a line that is wrong is no fault where it is not used, and keeps its number where it is") {
  const Folder folder;
  const std::string text = "{\"bad\": 1, \"n\": 1}\n{\"text\": \"a\", \"n\": 2}\n{\"text\": \"\", \"n\": 3}\nnone\n";
  CHECK_THAT(faults(data_of(folder, {"n = 2"}, {}, text)),
             StartsWith((folder / "a.jsonl").string() + ":4: broken JSON"));
  CHECK_THAT(faults(data_of(folder, {"n = 3"}, {}, text)), Contains("a.jsonl:3: 'text' is empty"));
}

TEST_CASE("conditions that mean nothing are refused") {
  CHECK_THAT(fault({"score"}), Contains("data.keep has \"score\", which is not \"COLUMN SIGN VALUE\"") &&
                                   Contains("such as \"score >= 3\""));
  CHECK_THAT(fault({"= 3"}), Contains("is not \"COLUMN SIGN VALUE\""));
  CHECK_THAT(fault({"score >"}), Contains("is not \"COLUMN SIGN VALUE\""));
  CHECK_THAT(fault({"scor > 3"}), StartsWith("a.toml:") && Contains("data.keep reads 'scor', and no row of ") &&
                                      Contains("name a column of the file"));
  CHECK_THAT(fault({"score > 3", "language = fr"}),
             Contains("data.keep leaves none of the 4 rows of ") &&
                 Contains("\"score > 3\" is fulfilled by 2, \"language = fr\" is fulfilled by 0"));
  CHECK_THAT(fault({"score > high"}),
             Contains("a.jsonl:1: 'score' is of type number here, which data.keep cannot judge by \"score > high\"") &&
                 Contains("compare numbers with a number"));
  CHECK_THAT(fault({"score has 3"}), Contains("'has' is for texts and lists"));
  CHECK_THAT(fault({"language > 3"}), Contains("a.jsonl:1: 'language' is of type string here"));
}

TEST_CASE("the kept rows of a large file are found once") {
  const Folder folder;
  ::setenv("CAPSTAN_CACHE", (folder / "cache").c_str(), 1);
  std::string text;
  for (int i = 0; i < 10000; ++i)
    text += R"({"text": ")" + std::string(1000, 'a') + R"(", "n": )" + std::to_string(i) + "}\n";
  const auto size = [&](const std::string& condition) {
    return data_of(folder, {condition}, {}, text)
        .open({data::Split::train, std::make_shared<tokenizer::ByteTokenizer>(), 2000, 258})
        ->size();
  };
  CHECK(size("n >= 9000") == 1000);
  std::filesystem::path kept_file;
  for (const auto& entry : entries_of(folder / "cache/derived")) {
    if (entry.extension() == ".rows") kept_file = entry;
  }
  REQUIRE_FALSE(kept_file.empty());
  write_file(kept_file, std::string_view(read_file(kept_file)).substr(0, 80));
  CHECK(size("n >= 9000") == 10);  // it is read, not made again
  CHECK(size("n >= 9900") == 100);
  write_file(kept_file, "short");
  CHECK_THAT(test::error_of([&] { (void)size("n >= 9000"); }), Contains("delete it: it is made again"));
  ::unsetenv("CAPSTAN_CACHE");
}

}  // namespace filters_test
