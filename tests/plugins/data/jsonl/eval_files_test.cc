// Files that are evaluated by name.
#include "plugins/libraries/records/jsonl_data.h"
#include "tokenizer/byte_tokenizer.h"

#include <capstan_catch.h>

#include "support/folder.h"
#include "support/options.h"

namespace eval_files_test {

using namespace capstan;
using namespace jsonl;

TEST_CASE("a file of eval_files is opened by its name, the evaluation file without one") {
  const test::Folder folder;
  const auto eval = folder.write("eval.jsonl", "{\"text\": \"one\"}\n");
  const auto hard = folder.write("hard.jsonl", "{\"text\": \"two\"}\n{\"text\": \"three\"}\n");
  const JsonlData data(testing::options_of<JsonlOptions>(
      "data", {{"train", eval}, {"eval", eval}, {"eval_files", std::vector<std::string>{hard}}}));
  Diagnostics faults;
  data.check(faults);
  CHECK(faults.empty());
  CHECK(data.evaluation_sets() == std::vector<std::string>{"hard"});
  data::SplitRequest request{data::Split::eval, std::make_shared<tokenizer::ByteTokenizer>(), 100, 258};
  CHECK(data.open(request)->size() == 1);
  request.set = "hard";
  CHECK(data.open(request)->size() == 2);
}

TEST_CASE("a file of eval_files that is not there, or has a broken line, is named with its option") {
  const test::Folder folder;
  const auto eval = folder.write("eval.jsonl", "{\"text\": \"one\"}\n");
  const auto broken = folder.write("broken.jsonl", "{\n");
  const JsonlData data(testing::options_of<JsonlOptions>(
      "data", {{"train", eval}, {"eval_files", std::vector<std::string>{(folder / "absent.jsonl").string(), broken}}}));
  Diagnostics faults;
  data.check(faults);
  REQUIRE(faults.size() == 2);
  CHECK_THAT(faults.list()[0].what, Contains("data.eval_files: there is no file"));
  CHECK_THAT(faults.list()[1].where, Contains("broken.jsonl"));
}

}  // namespace eval_files_test
