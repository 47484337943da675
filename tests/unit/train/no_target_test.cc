// Samples of which no token bears loss, from any source: refused, or left out and counted.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>
#include <capstan/data.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <set>

#include "data/content.h"
#include "step/evaluate.h"
#include "support/folder.h"
#include "support/job.h"
#include "testing/tiny.h"
#include "train/loop.h"
#include "train/resume.h"

namespace no_target_test {

using namespace capstan;

namespace {

struct BlankOptions {
  std::int64_t samples = 12;
  std::vector<std::int64_t> blank;
  std::vector<std::int64_t> absent;
  std::int64_t eval = 0;
  std::vector<std::int64_t> eval_blank;
  std::int64_t set_blank = 0;
  static void describe(config::OptionTable<BlankOptions>& t) {
    t.add("samples", &BlankOptions::samples);
    t.add("blank", &BlankOptions::blank).doc("samples without a target");
    t.add("tokens_of_blank", &BlankOptions::absent).doc("number of tokens of these that are another");
    t.add("eval", &BlankOptions::eval).doc("evaluation samples");
    t.add("eval_blank", &BlankOptions::eval_blank).doc("those without a target");
    t.add("set_blank", &BlankOptions::set_blank).doc("samples of an evaluation set, none with a target");
  }
};

bool holds(const std::vector<std::int64_t>& list, std::int64_t index) {
  return std::find(list.begin(), list.end(), index) != list.end();
}

class BlankSource : public data::DataSource {
 public:
  explicit BlankSource(BlankOptions options) : options_(std::move(options)) {}
  std::int64_t size() const override { return options_.samples; }
  data::Sample get(std::int64_t index) const override {
    data::Sample sample;
    sample.id = cat("line ", index);
    const bool is_blank = holds(options_.blank, index);
    for (std::int64_t i = 0; i < 5 + index % 3; ++i) {
      sample.tokens.push_back((holds(options_.absent, index) ? 11 : 3) + (index + i * i) % 7);
      sample.is_target.push_back(i == 0 || !is_blank);
    }
    return sample;
  }

 private:
  BlankOptions options_;
};

class Blank : public data::Data {
 public:
  explicit Blank(config::Options<BlankOptions> options) : options_(std::move(options)) {}
  void check(Diagnostics&) const override {}
  std::shared_ptr<data::DataSource> open(const data::SplitRequest& request) const override {
    auto options = *options_;
    if (request.split == data::Split::train) return std::make_shared<BlankSource>(options);
    options.blank = options_->eval_blank;
    options.samples = request.set.empty() ? options_->eval : options_->set_blank;
    if (!request.set.empty()) options.blank = {0, 1, 2};
    return options.samples > 0 ? std::make_shared<BlankSource>(options) : nullptr;
  }
  std::vector<std::string> evaluation_sets() const override {
    return options_->set_blank > 0 ? std::vector<std::string>{"hard"} : std::vector<std::string>{};
  }
  std::int64_t max_length() const override { return 8; }
  bool uses_tokenizer() const override { return false; }

 private:
  config::Options<BlankOptions> options_;
};

plugin::Registration blank_data() { return testing::type<data::Data, Blank, BlankOptions>("data", "blank"); }

testing::Setting with(const std::string& data, int world = 1) {
  return {.world = world,
          .config = "[data]\nplugin = \"blank\"\n" + data,
          .overrides = {"train.global_batch=4", "train.shuffle=false"},
          .steps = 3,
          .types = {blank_data()}};
}

}  // namespace

TEST_CASE("a sample without a target is refused before the first step, counted and named") {
  CHECK_THROWS_WITH(
      testing::train(with("blank = [5, 7]\n")),
      Contains("no token of the training sample 'line 5' bears loss; 2 of 12 that were looked at are so") &&
          Contains("data.no_target = \"skip\""));
}

TEST_CASE("one among very many is refused when it is drawn") {
  constexpr std::int64_t samples = 5000;
  std::set<std::int64_t> seen;
  data::look_at(samples, [&](std::int64_t index) {
    seen.insert(index);
    return data::Sample{{1, 2}, {false, true}, 0, "", {}};
  });
  std::int64_t hidden = 4;  // in the second step
  while (seen.contains(hidden)) ++hidden;
  REQUIRE(hidden < 12);
  const auto text = cat("samples = ", samples, "\nblank = [", hidden, "]\n");
  CHECK_THROWS_WITH(
      testing::train(with(text)),
      Contains(cat("no token of the training sample 'line ", hidden, "' bears loss")) && !Contains("looked at"));
  CHECK(testing::train(with(text + "no_target = \"skip\"\n")).losses.size() == 3);
}

TEST_CASE("one that is left out is not learned from: its tokens do not matter, on any number of ranks") {
  const std::string skip = "no_target = \"skip\"\nblank = [1, 6]\n";
  const auto one = testing::train(with(skip));
  CHECK(testing::differences(testing::train(with(skip + "tokens_of_blank = [1, 6]\n")), one, 0) == "");
  CHECK(testing::differences(testing::train(with(skip, 2)), one, 1e-10) == "");
  CHECK(testing::differences(testing::train(with(skip + "packing = true\n")), one, 1e-10) == "");
  CHECK(testing::differences(testing::train(with("blank = []\n")), one, 1e-10) != "");
}

TEST_CASE("a step that has only such samples updates nothing") {
  auto setting = with("no_target = \"skip\"\nblank = [4, 5, 6, 7]\n");
  setting.stop_after = 1;
  const auto before = testing::train(setting);
  setting.stop_after = 2;
  const auto after = testing::train(setting);
  CHECK(after.norms.size() == 2);
  for (const auto& [name, weight] : before.weights) CHECK(at::equal(weight, after.weights.at(name)));
  setting.stop_after = 3;
  CHECK_FALSE(at::equal(testing::train(setting).weights.begin()->second, before.weights.begin()->second));
}

TEST_CASE("metrics.jsonl says how many were left out, and that a step of nothing else made no update") {
  at::set_num_threads(1);
  const test::Folder folder;
  const auto file = folder.write("a.toml",
                                 "[run]\nhost_memory = 1000\ndevice = \"cpu\"\nsave_weights = false\n"
                                 "[model]\nplugin = \"tiny\"\n[data]\nplugin = \"blank\"\nblank = [1, 4, 5, 6, 7]\n"
                                 "no_target = \"skip\"\n[train]\nmax_steps = 3\nglobal_batch = 4\nshuffle = false\n");
  plugin::Host host;
  host.add(testing::tiny_model());
  host.add(blank_data());
  const step::Stop stop;
  comm::run_in_process(2, [&](comm::Communicator& communicator) {
    setup::JobRequest request;
    request.file = file;
    request.overrides = {"run.dir=" + folder.path().string(), "run.name=r"};
    request.world_size = 2;
    request.rank = communicator.world().rank;
    const auto job = testing::job_of(request, host);
    train::RunFolder run(train::shared_run_folder(job.config, communicator), request.rank);
    auto session = step::materialise(job, communicator);
    train::Loop loop(session, run, stop);
    loop.run();
  });
  std::vector<std::int64_t> left_out;
  std::vector<bool> skipped;
  std::vector<bool> has_loss;
  for (const auto& line : split(trim(read_file(folder / "r/metrics.jsonl")), '\n')) {
    const auto json = Json::parse(line);
    if (!json.contains("grad_norm")) continue;
    left_out.push_back(json.at("samples_without_target").get<std::int64_t>());
    skipped.push_back(json.value("skipped", false));
    has_loss.push_back(json.contains("loss") && json.at("loss").is_number());
  }
  CHECK(left_out == std::vector<std::int64_t>{1, 4, 0});
  CHECK(skipped == std::vector<bool>{false, true, false});
  CHECK(has_loss == std::vector<bool>{true, false, true});
}

TEST_CASE("an evaluation of which no token bears loss is refused before the first step, a set with a name too") {
  CHECK_THROWS_WITH(
      testing::train(with("eval = 3\neval_blank = [0, 1, 2]\n")),
      Contains("no token of the evaluation 'eval' (3 samples) bears loss") && Contains("fix: let answers bear loss"));
  CHECK_THROWS_WITH(testing::train(with("set_blank = 2\n")),
                    Contains("no token of the evaluation 'hard' (2 samples) bears loss"));
  CHECK(testing::train(with("eval = 3\neval_blank = [0, 1]\n")).losses.size() == 3);
}

TEST_CASE("a loss over nothing is an error on every rank, and samples without a target change no mean") {
  at::set_num_threads(1);
  const test::Folder folder;
  const auto file = folder.write("a.toml",
                                 "[run]\nhost_memory = 1000\ndevice = \"cpu\"\n[model]\nplugin = \"tiny\"\n"
                                 "[data]\nplugin = \"blank\"\neval = 3\n[train]\nmax_steps = 3\nglobal_batch = 4\n");
  plugin::Host host;
  host.add(testing::tiny_model());
  host.add(blank_data());
  comm::run_in_process(2, [&](comm::Communicator& communicator) {
    setup::JobRequest request;
    request.file = file;
    request.world_size = 2;
    request.rank = communicator.world().rank;
    const auto job = testing::job_of(request, host);
    auto session = step::materialise(job, communicator);
    const step::Feed feed(job);
    step::Evaluator evaluator(session, feed);
    BlankOptions options;
    options.samples = 3;
    options.blank = {0, 1, 2};
    CHECK_THROWS_WITH(evaluator.loss(BlankSource(options), "hard"), Contains("the evaluation 'hard' is over no "));
    options.samples = 6;
    options.blank = {3, 4, 5};
    const auto more = evaluator.loss(BlankSource(options));
    CHECK(more.loss == Approx(evaluator.loss(*job.samples.eval).loss).epsilon(1e-12));
    CHECK(more.loss > 0);
  });
}

}  // namespace no_target_test
