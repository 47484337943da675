#include "plugins/libraries/records/numbers.h"

#include "plugins/libraries/records/jsonl_data.h"
#include "tokenizer/byte_tokenizer.h"

#include <capstan_catch.h>

#include "support/errors.h"
#include "support/folder.h"
#include "support/options.h"

namespace numbers_test {

using namespace capstan;
using namespace jsonl;

namespace {

const std::string pair = R"({"prompt": "a", "chosen": "b", "rejected": "cc")";

JsonlData data_of(const std::string& path) {
  return JsonlData(testing::options_of<JsonlOptions>(
      "data", {{"train", path}, {"pairs", true}, {"numbers", std::vector<std::string>{"saved"}}}));
}

}  // namespace

TEST_CASE("numbers of a line are a field of its sample, one for each sequence") {
  const test::Folder folder;
  const auto data = data_of(folder.write("a.jsonl", pair + R"(, "saved": [-1.5, -20]})"));
  const auto form = data.form();
  REQUIRE(form.fields.size() == 1);
  CHECK(form.fields[0].name == "saved");
  CHECK(form.fields[0].per == data::FieldSpec::Per::sequence);
  const auto source = data.open({data::Split::train, std::make_shared<tokenizer::ByteTokenizer>(), 100, 258});
  const auto sample = source->get(0);
  REQUIRE(sample.fields.size() == 1);
  CHECK(std::get<std::vector<float>>(sample.fields[0]) == std::vector<float>{-1.5F, -20});
}

TEST_CASE("numbers that are named after log-probabilities are not above 0") {
  const test::Folder folder;
  const auto fault = [&](const std::string& key, const std::string& numbers) {
    const JsonlData data(testing::options_of<JsonlOptions>(
        "data", {{"train", folder.write("a.jsonl", pair + ", \"" + key + "\": " + numbers + "}")},
                 {"pairs", true},
                 {"numbers", std::vector<std::string>{key}}}));
    Diagnostics faults;
    data.check(faults);
    return faults.empty() ? std::string() : faults.list()[0].text();
  };
  CHECK_THAT(fault("reference_log_probability", "[-1.5, 22.25]"),
             Contains("a.jsonl:1: 'reference_log_probability' has 22.25, and the logarithm of a probability is not "
                      "above 0\n    fix: write log-probabilities: a negative log-likelihood"));
  CHECK_THAT(fault("ref_logps", "[0.5, -1]"), Contains("'ref_logps' has 0.5"));
  CHECK(fault("reference_log_probability", "[0, 0.0005]").empty());  // rounded
  CHECK(fault("saved", "[21.5, 22.25]").empty());
  CHECK_THAT(fault("saved", "[NaN, 1]"), Contains("NaN is no number in JSON"));
  CHECK_THAT(fault("saved", "null"), Contains("'saved' is missing"));
}

TEST_CASE("a line without its numbers, or with others, is named before anything begins") {
  const test::Folder folder;
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"}", "'saved' is missing"},
      {R"(, "saved": [1]})", "'saved' has 1 numbers, and the line 2 sequences"},
      {R"(, "saved": 1})", "'saved' has 1 numbers"},
      {R"(, "saved": [1, "2"]})", "which is no finite number"},
      {R"(, "saved": [1, 1e300]})", "which is no finite number"}};
  for (const auto& [end, what] : wrong) {
    INFO(end);
    Diagnostics faults;
    data_of(folder.write("a.jsonl", pair + end)).check(faults);
    REQUIRE(faults.size() == 1);
    CHECK_THAT(faults.list()[0].what, Contains(what));
    CHECK_THAT(faults.list()[0].where, Contains("a.jsonl:1"));
  }
}

}  // namespace numbers_test
