#include "my_plugin.h"

#include <capstan/testing.h>
#include <capstan_catch.h>

#include <set>

using namespace my_plugin_plugin;
using capstan::data::Split;

namespace {

/// A token per byte, and 256 at the end.
class TestTokenizer final : public capstan::tokenizer::Tokenizer {
 public:
  std::string name() const override { return "bytes"; }
  std::int64_t vocab_size() const override { return 257; }
  std::vector<std::int64_t> encode(std::string_view text) const override { return {text.begin(), text.end()}; }
  std::string decode(const std::vector<std::int64_t>& ids) const override { return {ids.begin(), ids.end()}; }
  std::int64_t end_id() const override { return 256; }
  std::int64_t pad_id() const override { return -1; }
};

MyPlugin make(std::int64_t largest) {
  capstan::config::Section section{"data", {}, {}};
  section.entries.push_back({"largest", largest, {}});
  capstan::Diagnostics diagnostics;
  MyPlugin plugin{{section, diagnostics}};
  diagnostics.throw_if_any();
  return plugin;
}

std::shared_ptr<capstan::data::DataSource> open(const MyPlugin& plugin, Split split) {
  return plugin.open({split, std::make_shared<TestTokenizer>(), plugin.max_length()});
}

}  // namespace

TEST_CASE("it does what every data source promises") {
  const auto plugin = make(12);
  const capstan::data::SplitRequest request{Split::train, std::make_shared<TestTokenizer>(), plugin.max_length(), 257};
  CHECK(capstan::testing::data_breaches(*plugin.open(request), request, plugin.form()) == "");
}

TEST_CASE("a sample is a prompt, an answer that bears loss, and the end token") {
  const auto sample = open(make(12), Split::train)->get(0);  // pair 1
  CHECK(sample.id == "0+1");
  CHECK(sample.tokens == std::vector<std::int64_t>{'0', '+', '1', '=', '1', 256});
  CHECK(sample.prompt_length == 4);
  CHECK(sample.is_target == std::vector<bool>{false, false, false, false, true, true});
}

TEST_CASE("training and evaluation share no sample and leave none out") {
  const auto plugin = make(12);
  std::set<std::string> seen;
  std::int64_t all = 0;
  for (const auto split : {Split::train, Split::eval}) {
    const auto source = open(plugin, split);
    all += source->size();
    for (std::int64_t i = 0; i < source->size(); ++i) {
      const auto sample = source->get(i);
      seen.insert(sample.id);
      CHECK(static_cast<std::int64_t>(sample.tokens.size()) <= plugin.max_length());
    }
  }
  CHECK(all == 13 * 13);
  CHECK(seen.size() == 13 * 13);
}

// An option that nothing asks for is seen by no test of single samples.
TEST_CASE("each option changes what is learned") {
  const capstan::testing::Setting setting{
      .config = "[data]\nplugin = \"my_plugin\"\n", .steps = 2, .types = {capstan::testing::linked(*capstan_plugin())}};
  CHECK(capstan::testing::without_effect(setting, {"data.largest=9"}) == "");
}

TEST_CASE("an answer is right or wrong") {
  const auto source = open(make(12), Split::eval);
  const auto sample = source->get(0);  // 0+0
  CHECK(source->score(sample, "0") == capstan::monitor::Values{{"exact_match", 100.0}});
  CHECK(source->score(sample, "00") == capstan::monitor::Values{{"exact_match", 0.0}});
}
