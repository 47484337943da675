// data.max_length = "auto": what becomes of it before any stage sees it.
#include <capstan/data.h>
#include <capstan/session/sample_lengths.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <algorithm>

#include "job/settle.h"
#include "support/folder.h"
#include "testing/tiny.h"

namespace settle_length_test {

using namespace capstan;

namespace {

struct LineOptions {
  std::int64_t longest = 5;
  std::int64_t max_length = 0;
  static void describe(config::OptionTable<LineOptions>& t) {
    t.add("longest", &LineOptions::longest);
    t.add("max_length", &LineOptions::max_length).min(0);
  }
};

// One sample of `longest` tokens, cut to what is asked for.
class Source : public data::DataSource {
 public:
  explicit Source(std::int64_t tokens) : tokens_(static_cast<std::size_t>(tokens)) {}
  std::int64_t size() const override { return 1; }
  data::Sample get(std::int64_t) const override {
    data::Sample sample;
    sample.tokens.assign(tokens_, 3);
    sample.is_target.assign(tokens_, true);
    return sample;
  }

 private:
  std::size_t tokens_;
};

class Silent : public data::Data {
 public:
  explicit Silent(config::Options<LineOptions> options) : options_(std::move(options)) {}
  void check(Diagnostics&) const override {}
  std::shared_ptr<data::DataSource> open(const data::SplitRequest& request) const override {
    if (request.split != data::Split::train) return nullptr;
    return std::make_shared<Source>(std::min(options_->longest, request.max_length));
  }
  std::int64_t max_length() const override { return options_->max_length; }

 protected:
  config::Options<LineOptions> options_;
};

class Measuring final : public Silent, public session::SampleLengths {
 public:
  using Silent::Silent;
  std::vector<session::SampleLength> lengths(const data::SplitRequest& request) const override {
    CHECK(request.tokenizer);
    CHECK(request.vocab_size > 0);
    if (options_->longest == 13) throw Error("the file is broken", "write it again", "lines.txt:3");
    if (request.split != data::Split::train) return {};
    return {{2, 1}, {static_cast<std::uint32_t>(options_->longest), 1}, {3, 1}};
  }
};

plugin::Host& host_with_plugins() {
  static plugin::Host host;
  static const bool once = [] {
    host.add(testing::tiny_model());
    host.add(testing::type<data::Data, Measuring, LineOptions>("data", "measuring"));
    host.add(testing::type<data::Data, Silent, LineOptions>("data", "silent"));
    return true;
  }();
  CHECK(once);
  return host;
}

struct Prepared {
  std::optional<job::Job> job;
  std::string faults;
};

Prepared prepared(const std::string& data, const std::vector<std::string>& overrides = {}) {
  const test::Folder folder;
  setup::JobRequest request;
  request.overrides = overrides;
  request.file = folder.write(
      "a.toml",
      "[run]\nhost_memory = 1000\ndevice = \"cpu\"\n[model]\nplugin = \"tiny\"\n[data]\ntokenizer = \"byte\"\n" + data +
          "\n[train]\nmax_steps = 1\nglobal_batch = 1\n");
  Diagnostics faults;
  Prepared made;
  made.job = job::make_job(request, host_with_plugins(), faults);
  for (const auto& one : faults.list()) made.faults += one.text() + "\n";
  return made;
}

const std::string automatic = "plugin = \"measuring\"\nmax_length = \"auto\"\n";

config::Value written(const job::Job& job) {
  for (const auto& table : job.tables()) {
    for (const auto& option : table.options) {
      if (option.spec.key == "max_length") return option.value;
    }
  }
  return {};
}

}  // namespace

TEST_CASE("the longest sample's length is rounded up as rows are, said, and what the run's configuration has") {
  const auto made = prepared(automatic + "longest = 5");
  REQUIRE(made.faults.empty());
  CHECK(made.job->samples.length == 9);  // 8 columns of a row, and the token after them
  CHECK(written(*made.job) == config::Value(std::int64_t{9}));
  CHECK_THAT(made.job->text(), Contains("max_length auto: 9, the longest sample has 5 tokens\n"));
  const auto& settled = made.job->config.request.settled.values;
  REQUIRE(settled.size() == 1);
  CHECK_THAT(settled.front().origin.text(), Contains("a.toml:9"));  // the line that says "auto"
  CHECK(prepared(automatic + "longest = 9").job->samples.length == 9);
  CHECK(prepared(automatic + "longest = 10", {"train.pad_to_multiple=3"}).job->samples.length == 10);
}

TEST_CASE("no more than the model's positions, and a number wins as ever") {
  const auto made = prepared(automatic + "longest = 4000");
  REQUIRE(made.faults.empty());
  CHECK(made.job->samples.length == made.job->plugins.model_facts.max_positions);
  CHECK_THAT(made.job->text(), Contains("the longest sample has 4,000 tokens, and the model no more positions\n"));
  const auto given = prepared(automatic, {"data.max_length=7"});
  REQUIRE(given.faults.empty());
  CHECK(given.job->samples.length == 7);
  CHECK_THAT(given.job->text(), !Contains("max_length auto"));
}

TEST_CASE("why a length is not known is said once, with other faults before it") {
  CHECK_THAT(prepared("plugin = \"silent\"\nmax_length = \"auto\"").faults,
             Contains("data.max_length is \"auto\", and 'silent' does not tell how long its samples are\n    fix: give "
                      "a number"));
  CHECK(
      prepared(automatic + "longest = 13").faults ==
      "lines.txt:3: the file is broken\n    fix: write it again\n    while plugin 'measuring' was in phase lengths\n");
  const auto other = prepared(automatic + "longest = 13", {"train.lr=3"});
  CHECK_THAT(other.faults, Contains("train.lr") && !Contains("broken"));
}

}  // namespace settle_length_test
