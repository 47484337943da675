// What a run that resumes may not change without being told: options, data, strategies.
#include "resume/changes.h"

#include <ATen/ATen.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan/comm/communicator.h>
#include <capstan/data.h>
#include <capstan/strategy.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include "config/to_toml.h"
#include "job/sections.h"
#include "support/folder.h"
#include "support/job.h"
#include "testing/tiny.h"

namespace changes_test {

using namespace capstan;

namespace {

// A source from elsewhere: a sample is a line's bytes.
struct LinesOptions {
  std::string train;
  std::string eval;
  std::int64_t shift = 0;
  std::int64_t eval_width = 1;
  static void describe(config::OptionTable<LinesOptions>& t) {
    t.add("train", &LinesOptions::train).path();
    t.add("eval", &LinesOptions::eval).path();
    t.add("shift", &LinesOptions::shift);
    t.add("eval_width", &LinesOptions::eval_width);
  }
};

// What no option says: the source gives other tokens.
std::int64_t hidden_shift = 0;
std::string hidden_template;

class LinesSource : public data::DataSource {
 public:
  LinesSource(const std::string& file, std::int64_t shift)
      : lines_(split(trim(read_file(file)), '\n')), shift_(shift) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(lines_.size()); }
  std::string content() const override { return hidden_template; }
  data::Sample get(std::int64_t index) const override {
    data::Sample sample;
    for (const unsigned char c : lines_[static_cast<std::size_t>(index)]) {
      sample.tokens.push_back((c + shift_ + hidden_shift) % 256);
      sample.is_target.push_back(true);
    }
    return sample;
  }

 private:
  std::vector<std::string> lines_;
  std::int64_t shift_;
};

class Lines : public data::Data {
 public:
  explicit Lines(config::Options<LinesOptions> options) : options_(std::move(options)) {}
  void check(Diagnostics&) const override {}
  std::shared_ptr<data::DataSource> open(const data::SplitRequest& request) const override {
    const auto& file = request.split == data::Split::train ? options_->train : options_->eval;
    return file.empty() ? nullptr : std::make_shared<LinesSource>(file, options_->shift);
  }
  std::int64_t max_length() const override { return 16; }
  bool uses_tokenizer() const override { return false; }

 private:
  config::Options<LinesOptions> options_;
};

struct AmountOptions {
  double amount = 1;
  std::string from;
  static void describe(config::OptionTable<AmountOptions>& t) {
    t.add("amount", &AmountOptions::amount);
    t.add("from", &AmountOptions::from).path();
  }
};

class Teaches : public strategy::Strategy {
 public:
  explicit Teaches(const config::Options<AmountOptions>&) {}
};

class Places : public strategy::Strategy {
 public:
  explicit Places(const config::Options<AmountOptions>&) {}
  void claim(strategy::Claims& claims) const override { claims.exclusive("unit recompute"); }
};

plugin::Host& host() {
  static plugin::Host host;
  static const bool once = [] {
    host.add(testing::tiny_model());
    host.add(testing::tiny_data());
    host.add(testing::type<data::Data, Lines, LinesOptions>("data", "lines"));
    host.add(testing::type<data::Data, Lines, LinesOptions>("data", "others"));
    host.add(testing::type<strategy::Strategy, Teaches, AmountOptions>("strategy", "teaches"));
    host.add(testing::type<strategy::Strategy, Places, AmountOptions>("strategy", "places"));
    return true;
  }();
  CHECK(once);
  return host;
}

// A run that saves, and what it may be resumed as.
class Runs {
 public:
  Runs() {
    folder_.write("train", "alpha\nbravo\ncharlie\ndelta\n");
    folder_.write("eval", "echo\n");
    write("");
  }
  void write(const std::string& strategies) {
    file_ = folder_.write("a.toml",
                          "[run]\nhost_memory = 1000\ndevice = \"cpu\"\n[model]\nplugin = \"tiny\"\n"
                          "[data]\nplugin = \"lines\"\ntrain = \"train\"\neval = \"eval\"\n"
                          "[train]\nmax_steps = 2\nglobal_batch = 2\n[checkpoint]\nevery_steps = 1\n" +
                              strategies);
  }
  const test::Folder& folder() const { return folder_; }

  job::Job job(const std::vector<std::string>& overrides = {}) const {
    setup::JobRequest request;
    request.file = file_;
    request.overrides = overrides;
    return testing::job_of(request, host());
  }
  // A checkpoint of this job, as far as its manifest says what it was.
  void save(const job::Job& job, bool is_old = false) const {
    checkpoint::Meta meta;
    meta.step = 1;
    meta.config = config::to_toml(job.tables());
    if (!is_old) meta.sections = job::change_sections(job);
    comm::run_in_process(1, [&](comm::Communicator& communicator) {
      const auto group = communicator.group("all", {0}, c10::Device(c10::DeviceType::CPU));
      checkpoint::save(folder_ / "saved", *group, meta, {{"model/x", {1}, layout::Box::whole({1}), at::ones({1})}});
    });
  }
  // Their names, and what is said of them.
  std::vector<std::string> changed(const std::vector<std::string>& overrides = {}) const {
    const checkpoint::Reader reader(folder_ / "saved");
    std::vector<std::string> names;
    for (const auto& change : resume::changes_since(job(overrides), reader)) names.push_back(change.name);
    return names;
  }
  std::string said(const std::vector<std::string>& overrides) const {
    const checkpoint::Reader reader(folder_ / "saved");
    std::string text;
    for (const auto& change : resume::changes_since(job(overrides), reader)) text += change.refusal.text() + "\n";
    return text;
  }

 private:
  test::Folder folder_;
  std::string file_;
};

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("what decides the function, the optimizer and the precision is compared, option by option") {
  const Runs runs;
  runs.save(runs.job());
  CHECK(runs.changed() == Names{});
  CHECK(runs.changed({"model.dropout=0.1"}) == Names{"model.dropout"});
  CHECK(runs.changed({"optimizer.betas=[0.8,0.99]", "optimizer.eps=1e-6", "optimizer.weight_decay=0.1",
                      "optimizer.decay=all", "optimizer.clip=2"}) ==
        Names{"optimizer.weight_decay", "optimizer.decay", "optimizer.clip", "optimizer.betas", "optimizer.eps"});
  CHECK(runs.changed({"train.precision=bf16"}) == Names{"train.precision"});
  CHECK_THAT(runs.said({"optimizer.clip=2"}),
             Contains("command line: optimizer.clip is 2.0, but 1.0 in the checkpoint " +
                      (runs.folder() / "saved").string()) &&
                 Contains("set it to 1.0, start a new run, or accept it: checkpoint.accept = [\"optimizer.clip\"]"));
}

TEST_CASE("schedule, speed, evaluation and where things lie may be others") {
  const Runs runs;
  runs.save(runs.job());
  const auto eval = runs.folder().write("other", "foxtrot\ngolf\n");
  CHECK(runs.changed({"optimizer.lr=0.5", "optimizer.schedule=cosine", "optimizer.warmup_steps=1", "train.max_steps=9",
                      "train.micro_batch=1", "train.eval_every=1", "train.pad_to_multiple=2",
                      "train.sort_by_length=false", "train.reduce=step", "data.eval=" + eval, "data.eval_width=3",
                      "data.packing=true", "run.dir=elsewhere", "checkpoint.keep=9", "data.no_target=skip"}) ==
        Names{});
}

TEST_CASE("data is compared by what is in it: by the bytes of its files, by its options, and as the model sees it") {
  const Runs runs;
  runs.save(runs.job());
  const auto moved = runs.folder().write("moved", "alpha\nbravo\ncharlie\ndelta\n");
  CHECK(runs.changed({"data.train=" + moved}) == Names{});
  const auto other = runs.folder().write("others", "alpha\nbravo\ncharlie\ndeltA\n");
  CHECK(runs.changed({"data.train=" + other}) == Names{"data.train"});
  CHECK_THAT(runs.said({"data.train=" + other}), Contains("command line: data.train is one with ") &&
                                                     Contains("but a file with XXH64 ") &&
                                                     Contains("other samples would follow"));
  CHECK(runs.changed({"data.shift=1"}) == Names{"data.shift"});
  hidden_shift = 1;
  CHECK(runs.changed() == Names{"data"});
  CHECK_THAT(runs.said({}), Contains("but of tokens with XXH64 "));
  hidden_template = "chat template 7";  // which is the reason that samples are others
  CHECK(runs.changed() == Names{"data"});
  CHECK_THAT(runs.said({}), Contains("data is of chat template 7, but of its files alone in the checkpoint"));
  hidden_shift = 0;
  hidden_template.clear();
  CHECK(runs.changed({"data.plugin=others"}) == Names{"data.plugin"});
}

TEST_CASE("a strategy counts where it is not only of the layout") {
  Runs runs;
  const std::string teaches = "[strategy.teaches]\namount = 2.0\n";
  const std::string places = "[strategy.places]\n";
  runs.write(teaches + places);
  runs.save(runs.job());
  CHECK(runs.changed() == Names{});
  CHECK(runs.changed({"strategy.places.amount=3", "strategy.teaches.from=elsewhere"}) == Names{});
  CHECK(runs.changed({"strategy.places.enabled=false"}) == Names{});
  CHECK(runs.changed({"strategy.teaches.amount=3"}) == Names{"strategy.teaches.amount"});
  CHECK(runs.changed({"strategy.teaches.enabled=false"}) == Names{"strategy.teaches"});
  runs.write("");
  runs.save(runs.job());
  CHECK(runs.changed({"strategy.teaches.amount=1.0", "strategy.places.amount=2"}) == Names{"strategy.teaches"});
  // A table without a word in it is there all the same.
  runs.write("[strategy.teaches]\nenabled = true\n");
  runs.save(runs.job());
  CHECK(runs.changed() == Names{});
}

TEST_CASE("an option or a table is accepted by its name") {
  setup::CheckpointOptions options;
  CHECK_FALSE(job::is_accepted(options, "data.shift"));
  options.accept = {"data", "optimizer.clip", "strategy.teaches"};
  for (const char* name : {"data", "data.train", "data.shift", "optimizer.clip", "strategy.teaches.amount"})
    CHECK(job::is_accepted(options, name));
  for (const char* name : {"optimizer.clip_norm", "optimizer.eps", "dataset.x", "strategy.teaches2", "model.dropout"})
    CHECK_FALSE(job::is_accepted(options, name));
  const Runs runs;
  CHECK_THROWS_WITH(runs.job({"checkpoint.accept=[\"optimiser.clip\"]"}),
                    Contains("checkpoint.accept has 'optimiser.clip', the name of nothing that is compared"));
}

TEST_CASE("a name in checkpoint.accept that stands for nothing compared is refused, with the nearest that does") {
  Runs runs;
  struct Row {
    const char* name;
    const char* meant;
  };
  for (const auto& [name, meant] :
       {Row{"optimizer.clipp", "did you mean 'optimizer.clip'?"}, Row{"optimizer.beta", "'optimizer.betas'"},
        Row{"data.trian", "'data.train'"}, Row{"model.dropuot", "'model.dropout'"},
        Row{"train.max_steps", "the name of nothing that is compared"}, Row{"strategy.teachers", "nothing"},
        Row{"objective.teacher", "nothing"}, Row{"train.precison", "'train.precision'"}}) {
    INFO(name);
    CHECK_THROWS_WITH(runs.job({cat("checkpoint.accept=[\"", name, "\"]")}), Contains(name) && Contains(meant));
  }
  for (const char* name : {"model", "data.shift", "optimizer.groups", "train.precision", "model.path", "optimizer",
                           "data", "train", "strategy", "objective", "model.plugin"})
    CHECK_NOTHROW(runs.job({cat("checkpoint.accept=[\"", name, "\"]")}));
  CHECK_THROWS(runs.job({"checkpoint.accept=[\"strategy.teaches\"]"}));
  runs.write("[strategy.teaches]\n");
  CHECK_NOTHROW(runs.job({"checkpoint.accept=[\"strategy.teaches.amount\"]"}));
}

TEST_CASE("a checkpoint that says less is compared by what it says") {
  const Runs runs;
  runs.save(runs.job(), /*is_old=*/true);
  const auto other = runs.folder().write("others", "alpha\nbravo\ncharlie\ndeltA\n");
  CHECK(runs.changed({"data.train=" + other}) == Names{});
  CHECK(runs.changed({"optimizer.clip=2"}) == Names{"optimizer.clip"});
  auto job = runs.job();
  checkpoint::Meta meta;
  meta.config = "[train]\nmax_steps = 3\n";
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    const auto group = communicator.group("all", {0}, c10::Device(c10::DeviceType::CPU));
    checkpoint::save(runs.folder() / "saved", *group, meta, {{"model/x", {1}, layout::Box::whole({1}), at::ones({1})}});
  });
  CHECK(runs.changed({"optimizer.clip=2", "model.dropout=0.1", "strategy.teaches.amount=2"}) == Names{});
}

}  // namespace changes_test
