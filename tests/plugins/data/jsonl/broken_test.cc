// Lines that are no JSON, and files in another encoding.
#include "plugins/libraries/records/jsonl_data.h"
#include "tokenizer/byte_tokenizer.h"

#include <capstan_catch.h>

#include "support/folder.h"
#include "support/options.h"

namespace broken_test {

using namespace capstan;
using namespace jsonl;
using test::Folder;

namespace {

JsonlData data_of(const std::string& path) {
  return JsonlData(testing::options_of<JsonlOptions>("data", {{"train", path}}));
}

std::vector<std::string> faults(const std::string& path) {
  Diagnostics diagnostics;
  data_of(path).check(diagnostics);
  std::vector<std::string> texts;
  for (const auto& diagnostic : diagnostics.list()) texts.push_back(diagnostic.text());
  return texts;
}

std::shared_ptr<data::DataSource> open(const std::string& path) {
  return data_of(path).open({data::Split::train, std::make_shared<tokenizer::ByteTokenizer>(), 100, 258});
}

}  // namespace

TEST_CASE("JSON that other programs break is said with its column and what to do") {
  const auto said = [](const std::string& line) {
    const Folder folder;
    const auto path = folder.write("a.jsonl", "{\"text\": \"a\"}\n" + line + "\n");
    const auto texts = faults(path);
    REQUIRE(texts.size() == 1);
    CHECK(texts[0].starts_with(path + ":2: broken JSON: "));
    return texts[0];
  };
  CHECK_THAT(said("{\"prompt\":\"caf\xe9\",\"completion\":\"x\"}"),
             Contains("column 15: the byte \\xe9 is no UTF-8") && Contains("iconv -f WINDOWS-1252 -t UTF-8"));
  CHECK_THAT(said(R"({"prompt":"a \ud83d","completion":"x"})"), Contains("column 14: \\ud83d is half of a surrogate"));
  CHECK_THAT(said(R"({"prompt":"a","completion":"b","score":NaN})"), Contains("column 40: NaN is no number in JSON"));
  CHECK_THAT(said(std::string("{\"prompt\":\"a\0\"", 14)), Contains("column 13: the control character \\x00"));
  CHECK_THAT(said(R"({"text":"a"})" + std::string(3, '\0')), Contains("column 13: the control character \\x00"));
  CHECK_THAT(said(R"({"text": 1e999})"), Contains("column 10: 1e999 is beyond any number"));
  CHECK_THAT(said(R"({"text":"a"} {"text":"b"})"), Contains("column 14: something follows the end of the value"));
  CHECK_THAT(said(R"({"text":)" + std::string(200, '[')), Contains("a list or an object inside of 100 others"));
}

TEST_CASE("a file in UTF-16 is one fault, and a byte-order mark of UTF-8 is none") {
  const Folder folder;
  std::string wide = "\xff\xfe";
  for (const char c : std::string("{\"text\": \"a\"}\n{\"text\": \"b\"}\n")) wide += {c, '\0'};
  const auto path = folder.write("wide.jsonl", wide);
  CHECK(faults(path) ==
        std::vector<std::string>{path + ": it is in UTF-16: make UTF-8 of it, as `iconv -f UTF-16 -t UTF-8 OLD > NEW` "
                                        "does\n    fix: write JSON lines in UTF-8, and name that file as data.train"});
  CHECK_THROWS_AS(open(path), Error);
  const auto marked = folder.write("marked.jsonl", "\xef\xbb\xbf{\"text\": \"a\"}\n");
  CHECK(faults(marked).empty());
  CHECK(open(marked)->get(0).tokens == std::vector<std::int64_t>{'a', tokenizer::ByteTokenizer().end_id()});
}

}  // namespace broken_test
