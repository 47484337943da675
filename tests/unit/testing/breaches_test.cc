// What plugins of a kind promise by their interface: Capstan's own keep it, and what breaks it is found.
#include <ATen/ATen.h>
#include <capstan/data/source.h>
#include <capstan/monitor/monitor.h>
#include <capstan/objective/objective.h>
#include <capstan/optimizer/rule.h>
#include <capstan/plugin/host.h>
#include <capstan/testing.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include <limits>

#include "support/folder.h"
#include "tokenizer/byte_tokenizer.h"

namespace breaches_test {

using namespace capstan;

namespace {

using Values = std::vector<std::pair<std::string, config::Value>>;

plugin::Host& host() {
  static plugin::Host made;
  return made;
}

// An object of Capstan's own plugin.
template <class Interface>
std::shared_ptr<Interface> made(const std::string& kind, const std::string& name, const Values& values = {}) {
  config::Section section;
  section.path = kind == "monitor" ? "monitor." + name : kind;
  for (const auto& [key, value] : values) section.entries.push_back({key, value, {}});
  Diagnostics faults;
  auto object = std::static_pointer_cast<Interface>(host().load(kind, name).make(section, faults));
  faults.throw_if_any();
  return object;
}

std::string breaches_of_data(const std::string& name, const Values& values, std::int64_t length) {
  const auto data = made<data::Data>("data", name, values);
  const data::SplitRequest request{data::Split::train, std::make_shared<tokenizer::ByteTokenizer>(), length, 258};
  return testing::data_breaches(*data->open(request), request, data->form());
}

}  // namespace

TEST_CASE("every optimizer keeps what its interface promises") {
  for (const std::string name : {"adamw", "lion", "muon", "adam8bit"}) {
    INFO(name);
    CHECK(testing::optimizer_breaches([&] { return made<optimizer::Rule>("optimizer", name); }) == "");
  }
}

TEST_CASE("every monitor keeps what its interface promises") {
  for (const std::string name : {"csv", "tensorboard", "wandb", "mlflow", "memory_log", "memory_snapshot",
                                 "train_speed", "utilisation", "trace"}) {
    INFO(name);
    CHECK(testing::monitor_breaches([&] { return made<monitor::Monitor>("monitor", name); }) == "");
  }
}

TEST_CASE("every data source keeps what its interface promises") {
  const test::Folder folder;
  const auto lines = folder.write("a.jsonl",
                                  "{\"prompt\": \"Who?\", \"completion\": \"Ada\"}\n"
                                  "{\"prompt\": \"What does she keep? \\u00fc\", \"completion\": \"a goat\"}\n");
  CHECK(breaches_of_data("jsonl", {{"train", lines}, {"max_length", std::int64_t{64}}}, 64) == "");
  CHECK(breaches_of_data("squad",
                         {{"train", std::string(CAPSTAN_SOURCE_DIR "/configs/data/mini_squad_train.json")},
                          {"max_length", std::int64_t{97}}},
                         97) == "");
  CHECK(breaches_of_data("synthetic", {{"max_length", std::int64_t{33}}}, 33) == "");
}

TEST_CASE("the byte tokenizer keeps what its interface promises") {
  CHECK(testing::tokenizer_breaches(tokenizer::ByteTokenizer(), {"any other text"}) == "");
}

TEST_CASE("the objective of language models keeps what its interface promises") {
  CHECK(testing::objective_breaches(*made<objective::Objective>("objective", "causal_lm"), {.steps = 3}) == "");
}

namespace {

// Plain descent, wrong in a way at a time.
class WrongRule : public optimizer::Rule {
 public:
  explicit WrongRule(std::string fault) : fault_(std::move(fault)) {}
  std::vector<optimizer::StateSpec> states(const layout::Param&) const override {
    if (fault_ == "names") return {{"mean"}, {"mean"}};
    return {{"mean"}};
  }
  void apply(std::vector<optimizer::Slice>& slices, const optimizer::Update& update) override {
    if (fault_ == "throws") throw Error("no luck", "try again");
    for (auto& slice : slices) {
      if (fault_ != "skip" && update.skip.item<float>() != 0) continue;
      auto step = slice.grad / (fault_ == "scale" ? 1.0 : update.grad_scale.item<double>());
      if (fault_ == "parts") step = step / step.norm().clamp_min(1e-9);
      if (fault_ == "zero") step = step + 1;
      if (fault_ == "idle") step = step * 0;
      if (fault_ == "memory") step = step * static_cast<double>(++calls_);
      slice.master.sub_(step, slice.lr);
    }
  }

 private:
  std::string fault_;
  int calls_ = 0;
};

std::string of_wrong_rule(const std::string& fault) {
  return testing::optimizer_breaches([&] { return std::make_shared<WrongRule>(fault); });
}

class WrongTokenizer : public tokenizer::Tokenizer {
 public:
  explicit WrongTokenizer(std::string fault) : fault_(std::move(fault)) {}
  std::string name() const override { return "wrong"; }
  std::int64_t vocab_size() const override { return bytes_.vocab_size(); }
  std::vector<std::int64_t> encode(std::string_view text) const override {
    auto ids = bytes_.encode(text);
    if (fault_ == "range" && !ids.empty()) ids.front() = vocab_size();
    if (fault_ == "again" && ++calls_ % 2 == 0) ids.push_back(1);
    if (fault_ == "grows") ids.push_back('!');
    return ids;
  }
  std::string decode(const std::vector<std::int64_t>& ids) const override { return bytes_.decode(ids); }
  std::int64_t end_id() const override { return bytes_.end_id(); }
  std::int64_t pad_id() const override { return fault_ == "pad" ? vocab_size() : bytes_.pad_id(); }
  bool is_end(std::int64_t id) const override { return fault_ != "end" && bytes_.is_end(id); }
  tokenizer::Encoded encode_with_ranges(std::string_view text) const override {
    auto encoded = bytes_.encode_with_ranges(text);
    if (fault_ == "few ranges" && !encoded.ranges.empty()) encoded.ranges.pop_back();
    if (fault_ == "order" && encoded.ranges.size() > 1) std::swap(encoded.ranges.front(), encoded.ranges.back());
    if (fault_ == "after" && !encoded.ranges.empty()) ++encoded.ranges.back().end;
    return encoded;
  }
  std::vector<std::int64_t> encode_ordinary(std::string_view text) const override {
    auto ids = bytes_.encode(text);
    if (fault_ == "ordinary") ids.push_back(end_id());
    return ids;
  }
  bool is_special(std::int64_t id) const override {
    return bytes_.is_special(id) || (fault_ == "special" && id == 'a');
  }

 private:
  tokenizer::ByteTokenizer bytes_;
  std::string fault_;
  mutable int calls_ = 0;
};

class WrongSource : public data::DataSource {
 public:
  explicit WrongSource(std::string fault) : fault_(std::move(fault)) {}
  std::int64_t size() const override { return 3; }
  data::Sample get(std::int64_t index) const override {
    data::Sample sample;
    sample.tokens.assign(4, index);
    sample.is_target.assign(fault_ == "targets" ? 3 : 4, true);
    sample.prompt_length = fault_ == "prompt" ? 5 : 2;
    sample.references = {"x"};
    if (fault_ == "id") sample.tokens.back() = 258;
    if (fault_ == "long") sample.tokens.assign(9, 1), sample.is_target.assign(9, true);
    if (fault_ == "again") sample.tokens.front() = ++calls_ % 7;
    if (fault_ == "fields") sample.fields = {std::vector<float>{1}};
    return sample;
  }
  monitor::Values score(const data::Sample&, const std::string&) const override {
    return {{"exact_match", fault_ == "score" ? 101 : 100}};
  }

 private:
  std::string fault_;
  mutable int calls_ = 0;
};

std::string of_wrong_source(const std::string& fault) {
  const data::SplitRequest request{data::Split::train, std::make_shared<tokenizer::ByteTokenizer>(), 8, 258};
  return testing::data_breaches(WrongSource(fault), request, {});
}

class WrongMonitor : public monitor::Monitor {
 public:
  explicit WrongMonitor(std::string fault) : fault_(std::move(fault)) {}
  monitor::Values step_ended(const monitor::StepEnded& step) override {
    if (fault_ == "skipped" && step.skipped) throw Error("the loss is no number", "");
    if (fault_ == "twice") return {{"a", 1}, {"a", 2}};
    if (fault_ == "infinite") return {{"a", std::numeric_limits<double>::infinity()}};
    steps_ += 1;
    return {{"a", 1}};
  }
  void run_ended(const monitor::RunEnded&) override {
    if (fault_ == "no steps" && steps_ == 0) throw Error("no step was made", "");
  }
  void run_failed(const monitor::RunFailed&) override {
    if (fault_ == "failed") throw Error("the file is not open", "");
  }

 private:
  std::string fault_;
  int steps_ = 0;
};

std::string of_wrong_monitor(const std::string& fault) {
  return testing::monitor_breaches([&] { return std::make_shared<WrongMonitor>(fault); });
}

}  // namespace

TEST_CASE("what breaks the promises of an interface is found, each by its own line") {
  for (const auto& [fault, line] :
       std::vector<std::pair<std::string, std::string>>{{"", ""},
                                                        {"names", "states() has the name 'mean' twice"},
                                                        {"throws", "apply() throws: no luck"},
                                                        {"skip", "an update that is to be skipped changes"},
                                                        {"scale", "gradients are not divided by Update::grad_scale"},
                                                        {"parts", "depends on the other elements of its slice"},
                                                        {"zero", "does not stay zero"},
                                                        {"idle", "two updates change nothing"},
                                                        {"memory", "gradients are not divided"}}) {
    INFO("rule: " << fault);
    const auto said = of_wrong_rule(fault);
    CHECK((fault.empty() ? said.empty() : said.find(line) != std::string::npos));
  }
  for (const auto& [fault, line] :
       std::vector<std::pair<std::string, std::string>>{{"range", "has a number that is no id"},
                                                        {"again", "has other ids the second time"},
                                                        {"grows", "which comes back as another text"},
                                                        {"pad", "pad_id() is 258, which is no id"},
                                                        {"end", "is_end(end_id()) is false"},
                                                        {"few ranges", "ranges for"},
                                                        {"order", "do not ascend"},
                                                        {"after", "ends after the text"},
                                                        {"ordinary", "has a special id"},
                                                        {"special", "is_special(97), whose text is \"a\""}}) {
    INFO("tokenizer: " << fault);
    CHECK_THAT(testing::tokenizer_breaches(WrongTokenizer(fault)), Contains(line));
  }
  CHECK(of_wrong_source("") == "");
  for (const auto& [fault, line] : std::vector<std::pair<std::string, std::string>>{
           {"targets", "has 4 tokens but is_target has 3"},
           {"prompt", "has a prompt of 5 of its 4 tokens"},
           {"id", "has a token that is not in the model's vocabulary"},
           {"long", "has 9 tokens, more than max_length 8"},
           {"again", "is another one the second time"},
           {"fields", "has values of 1 field instead of 0"},
           {"score", "score 'exact_match' of an accepted answer is 101"}}) {
    INFO("data: " << fault);
    CHECK_THAT(of_wrong_source(fault), Contains(line));
  }
  CHECK(of_wrong_monitor("") == "");
  for (const auto& [fault, line] : std::vector<std::pair<std::string, std::string>>{
           {"skipped", "the loss is no number"},
           {"twice", "step_ended() returns the name 'a' twice"},
           {"infinite", "step_ended() returns inf as a"},
           {"no steps", "run_ended() on rank 0 of a run of 0 steps throws"},
           {"failed", "run_failed() before a step throws"}}) {
    INFO("monitor: " << fault);
    CHECK_THAT(of_wrong_monitor(fault), Contains(line));
  }
}

}  // namespace breaches_test
