#include <capstan/config/options.h>
#include <capstan_catch.h>

#include <cmath>
#include <filesystem>

namespace options_test {

using namespace capstan;
using namespace capstan::config;
using Layer = Origin::Layer;

namespace {

struct Sample {
  bool fast = false;
  std::int64_t rank = 8;
  double lr = 1e-3;
  double clip = 1;
  std::string schedule = "cosine";
  std::string name = "run";
  std::string file;
  std::optional<std::string> cache;
  std::optional<std::int64_t> seed;
  std::vector<std::int64_t> sizes{1, 2};
  std::vector<double> betas{0.9, 0.95};
  std::vector<std::string> targets;
  static void describe(OptionTable<Sample>& t) {
    t.add("fast", &Sample::fast).doc("no checks");
    t.add("rank", &Sample::rank).min(1).max(64).doc("rank of each adapter");
    t.add("lr", &Sample::lr).above(0).spelling("learning_rate").doc("peak learning rate");
    t.add("clip", &Sample::clip).min(0).doc("largest global norm");
    t.add("schedule", &Sample::schedule).choices({"cosine", "linear"}).doc("how lr falls");
    t.add("name", &Sample::name).doc("of the run");
    t.add("file", &Sample::file).path().doc("where it lies");
    t.add("cache", &Sample::cache).path().doc("of what can be made again");
    t.add("seed", &Sample::seed).doc("of everything");
    t.add("sizes", &Sample::sizes).min(1).doc("of parts");
    t.add("betas", &Sample::betas).min(0).max(1).doc("of AdamW");
    t.add("targets", &Sample::targets).choices({"qkv", "proj"}).doc("adapted layers");
  }
};

Entry entry(const std::string& key, Value value, int line = 1) {
  return {key, std::move(value), {Layer::file, "c/a.toml", line}};
}

Section section(std::vector<Entry> entries) { return {"train", {Layer::file, "c/a.toml", 1}, std::move(entries)}; }

// The diagnostics' text of a section with this one entry.
std::string fault(const std::string& key, Value value) {
  Diagnostics diagnostics;
  const Options<Sample> options(section({entry(key, std::move(value), 3)}), diagnostics);
  std::string out;
  for (const auto& diagnostic : diagnostics.list()) out += diagnostic.text() + "\n";
  return out;
}

}  // namespace

TEST_CASE("options have the struct's defaults, and remember that they were not set") {
  const Options<Sample> options;
  CHECK(options->rank == 8);
  CHECK(options->betas == std::vector<double>{0.9, 0.95});
  CHECK_FALSE(options->seed.has_value());
  CHECK_FALSE(options.is_set(&Sample::rank));
  CHECK(options.where(&Sample::rank) == "default");
  CHECK(options.name(&Sample::rank) == "rank");
  CHECK(Options<Sample>::schema().size() == 12);
}

TEST_CASE("values of every type arrive in the struct, with their origin") {
  Diagnostics diagnostics;
  const Options<Sample> options(
      section({entry("fast", true), entry("rank", std::int64_t{4}, 12), entry("lr", 0.5),
               entry("name", std::string("x")), entry("seed", std::int64_t{7}),
               entry("sizes", std::vector<std::int64_t>{3}), entry("betas", std::vector<double>{0.5, 1}),
               entry("targets", std::vector<std::string>{"qkv"})}),
      diagnostics);
  CHECK(diagnostics.empty());
  CHECK(options->fast);
  CHECK(options->rank == 4);
  CHECK(options->lr == 0.5);
  CHECK(options->name == "x");
  CHECK(options->seed == 7);
  CHECK(options->sizes == std::vector<std::int64_t>{3});
  CHECK(options->betas == std::vector<double>{0.5, 1});
  CHECK(options->targets == std::vector<std::string>{"qkv"});
  CHECK(options.where(&Sample::rank) == "c/a.toml:12");
  CHECK(options.name(&Sample::rank) == "train.rank");
  CHECK(options.is_set(&Sample::rank));
  CHECK_FALSE(options.is_set(&Sample::clip));
}

TEST_CASE("integers are numbers, and an empty list is a list of anything") {
  Diagnostics diagnostics;
  const Options<Sample> options(
      section({entry("clip", std::int64_t{2}), entry("betas", std::vector<std::int64_t>{0, 1}),
               entry("targets", std::vector<std::int64_t>{}), entry("sizes", std::vector<std::string>{})}),
      diagnostics);
  CHECK(diagnostics.empty());
  CHECK(options->clip == 2.0);
  CHECK(options->betas == std::vector<double>{0, 1});
  CHECK(options->targets.empty());
  CHECK(options->sizes.empty());
}

TEST_CASE("a wrong type is refused with the value, what it must be, and how to write it") {
  CHECK(fault("rank", std::string("many")) ==
        "c/a.toml:3: train.rank is \"many\" (a string), but must be an integer\n    fix: for example rank = 8\n");
  CHECK(fault("rank", 16.0) ==
        "c/a.toml:3: train.rank is 16.0 (a number), but must be an integer\n    fix: write 16\n");
  CHECK(fault("name", std::int64_t{2024}) ==
        "c/a.toml:3: train.name is 2024 (an integer), but must be a string\n    fix: write \"2024\"\n");
  CHECK(fault("targets", std::string("qkv")) ==
        "c/a.toml:3: train.targets is \"qkv\" (a string), but must be a list of strings\n    fix: write [\"qkv\"]\n");
  CHECK_THAT(fault("fast", std::string("true")), Contains("(a string), but must be true or false"));
  CHECK_THAT(fault("fast", std::int64_t{1}), Contains("1 (an integer), but must be true or false"));
  CHECK_THAT(fault("lr", true), Contains("true (a boolean), but must be a number"));
  CHECK_THAT(fault("sizes", 1.5), Contains("1.5 (a number), but must be a list of integers"));
  CHECK_THAT(fault("sizes", std::vector<double>{1.5}),
             Contains("[1.5] (a list of numbers), but must be a list of int"));
  CHECK_THAT(fault("lr", std::vector<std::int64_t>{1}), Contains("[1] (a list of integers), but must be a number"));
  CHECK_THAT(fault("betas", std::vector<std::string>{"a"}), Contains("(a list of strings), but must be a list of num"));
}

TEST_CASE("a value out of its range or choices is refused in words") {
  CHECK(fault("rank", std::int64_t{0}) == "c/a.toml:3: train.rank is 0, but must be between 1 and 64\n");
  CHECK(fault("lr", 0.0) == "c/a.toml:3: train.lr is 0.0, but must be above 0\n");
  CHECK(fault("clip", -0.5) == "c/a.toml:3: train.clip is -0.5, but must be at least 0\n");
  CHECK(fault("sizes", std::vector<std::int64_t>{1, 0}) ==
        "c/a.toml:3: train.sizes is [1, 0], but must be at least 1\n");
  CHECK_THAT(fault("betas", std::vector<double>{0.9, 1.5}), Contains("but must be between 0 and 1"));
  CHECK_THAT(fault("lr", std::nan("")), Contains("train.lr is nan, but must be a finite number"));
  CHECK_THAT(fault("clip", HUGE_VAL), Contains("train.clip is inf, but must be a finite number"));
  CHECK(fault("schedule", std::string("cosin")) ==
        "c/a.toml:3: train.schedule is \"cosin\", but must be one of \"cosine\", \"linear\"\n"
        "    fix: did you mean 'cosine'?\n");
  CHECK_THAT(fault("targets", std::vector<std::string>{"qkv", "x"}), Contains("but must be one of \"qkv\", \"proj\""));
}

TEST_CASE("a path is nothing that a terminal would obey, nor empty by accident") {
  CHECK_THAT(fault("file", std::string("a\033[31m")), Contains("but must be a path without control characters"));
  CHECK_THAT(fault("cache", std::string()), Contains("but must be a path; write \".\""));
  CHECK(fault("file", std::string()).empty());  // its default: none
}

TEST_CASE("no count is so large that sums of it would not fit into a number") {
  CHECK(fault("seed", std::int64_t{9223372036854775807}) ==
        "c/a.toml:3: train.seed is 9223372036854775807, but must be at most 1000000000000000\n");
  CHECK_THAT(fault("sizes", std::vector<std::int64_t>{1, 1000000000000001}),
             Contains("must be at most 1000000000000000"));
  CHECK(fault("seed", std::int64_t{1000000000000000}).empty());
  CHECK(fault("clip", 1e300).empty());  // a number, and no count
}

TEST_CASE("an option of ours that this plugin lacks is not answered with itself") {
  Section model = section({entry("ff_dim", std::int64_t{1})});
  model.path = "model";
  Diagnostics diagnostics;
  OptionSpec other;
  other.key = "vocab_size";
  resolve({other}, model, diagnostics);
  REQUIRE(diagnostics.list().size() == 1);
  CHECK(diagnostics.list().front().fix == "one of: vocab_size");
}

TEST_CASE("bounds are inclusive unless said otherwise") {
  CHECK(fault("rank", std::int64_t{1}).empty());
  CHECK(fault("rank", std::int64_t{64}).empty());
  CHECK_FALSE(fault("rank", std::int64_t{65}).empty());
  CHECK(fault("clip", 0.0).empty());
  CHECK(fault("lr", 1e-300).empty());
  OptionSpec spec;
  CHECK(limits_text(spec).empty());
  spec.max = 0.5;
  CHECK(limits_text(spec) == "at most 0.5");
  spec.min = 0;
  spec.min_is_exclusive = true;
  CHECK(limits_text(spec) == "above 0 and at most 0.5");
}

TEST_CASE("an unknown key is refused with the nearest name, file and line") {
  Diagnostics carrying;
  const Options<Sample> unread(section({entry("rnak", std::int64_t{1}, 3)}), carrying);
  REQUIRE(carrying.size() == 1);
  CHECK(carrying.list().front().unknown_option == "train.rnak");
  CHECK(fault("rnak", std::int64_t{1}) == "c/a.toml:3: unknown option train.rnak\n    fix: did you mean 'rank'?\n");
  CHECK_THAT(fault("temperature", 1.0), Contains("unknown option train.temperature\n    fix: one of: fast, rank"));
  Diagnostics diagnostics;
  resolve({}, section({entry("x", true)}), diagnostics);
  REQUIRE(diagnostics.size() == 1);
  CHECK(diagnostics.list()[0].fix == "remove it: [train] takes no options");
}

namespace {

struct Changed {
  std::int64_t size = 1;
  std::string family = "ours";
  double noise = 0;
  static void describe(OptionTable<Changed>& t) {
    t.add("size", &Changed::size).doc("of it");
    t.add("family", &Changed::family).choices({"ours"}).doc("in a config.json");
    t.add("noise", &Changed::noise).min(0).max(0).doc("in a config.json");
    t.gone("overlap", false, "leave it out: it gained nothing");
  }
};

std::vector<std::string> faults_of_changed(std::vector<Entry> entries) {
  Diagnostics diagnostics;
  const Options<Changed> options(section(std::move(entries)), diagnostics);
  std::vector<std::string> out;
  for (const auto& diagnostic : diagnostics.list()) out.push_back(diagnostic.text());
  return out;
}

}  // namespace

TEST_CASE("an option that is gone is refused with what to do, unless an older run wrote down its default") {
  CHECK(faults_of_changed({entry("overlap", true, 2)}) ==
        std::vector<std::string>{"c/a.toml:2: there is no option train.overlap any more\n"
                                 "    fix: leave it out: it gained nothing"});
  CHECK(faults_of_changed({entry("overlap", false)}).empty());
  CHECK(faults_of_changed({entry("overlaps", false)}).size() == 1);  // a slip is a slip
}

TEST_CASE("what accepts one value is judged, and not listed") {
  const auto shown = listed(Options<Changed>::schema());
  REQUIRE(shown.size() == 1);
  CHECK(shown[0].key == "size");
  CHECK(faults_of_changed({entry("family", std::string("ours")), entry("noise", 0.0)}).empty());
  CHECK(faults_of_changed({entry("noise", 0.5)}) ==
        std::vector<std::string>{"c/a.toml:1: train.noise is 0.5, but must be 0"});
  CHECK(faults_of_changed({{"family", std::string("theirs"), {Layer::model_file, "config.json", 0}}}).size() == 1);
}

TEST_CASE("all faults are found at once, and a faulty option keeps its default") {
  Diagnostics diagnostics;
  const Options<Sample> options(
      section({entry("rank", std::int64_t{0}), entry("rnak", std::int64_t{0}), entry("lr", true)}), diagnostics);
  CHECK(diagnostics.size() == 3);
  CHECK(options->rank == 8);
  CHECK(options->lr == 1e-3);
  CHECK_FALSE(options.is_set(&Sample::rank));
}

TEST_CASE("another spelling sets the same option, but not both of them") {
  Diagnostics diagnostics;
  const Options<Sample> one(section({entry("learning_rate", 0.25)}), diagnostics);
  CHECK(diagnostics.empty());
  CHECK(one->lr == 0.25);
  const Options<Sample> both(section({entry("lr", 0.5, 4), entry("learning_rate", 0.25, 9)}), diagnostics);
  REQUIRE(diagnostics.size() == 1);
  CHECK(diagnostics.list()[0].text() ==
        "c/a.toml:9: train.learning_rate and train.lr (c/a.toml:4) are two spellings of one option\n"
        "    fix: keep one of them");
}

TEST_CASE("the highest layer wins, whatever the order and the spelling") {
  const Origin preset{Layer::preset, "", 0};
  const Origin model{Layer::model_file, "m/config.json", 0};
  const Origin typed{Layer::command_line, "", 0};
  Diagnostics diagnostics;
  const Options<Sample> options(section({{"lr", 0.1, typed},
                                         entry("learning_rate", 0.2),
                                         {"rank", std::int64_t{2}, preset},
                                         {"rank", std::int64_t{3}, model},
                                         {"architectures", std::vector<std::string>{"x"}, model},
                                         {"seed", Value(), model}}),
                                diagnostics);
  CHECK(diagnostics.empty());
  CHECK(options->lr == 0.1);
  CHECK(options.where(&Sample::lr) == "command line");
  CHECK(options->rank == 3);
  CHECK(options.where(&Sample::rank) == "m/config.json");
  CHECK_FALSE(options.is_set(&Sample::seed));
}

TEST_CASE("what is typed for a string is that string") {
  const Origin typed{Layer::command_line, "", 0};
  Diagnostics diagnostics;
  const Options<Sample> options(
      section({{"name", std::int64_t{1000}, typed, "1_000"}, {"rank", std::int64_t{4}, typed, "4"}}), diagnostics);
  CHECK(diagnostics.empty());
  CHECK(options->name == "1_000");
  CHECK(options->rank == 4);
}

TEST_CASE("a required option that is missing says where to add it") {
  struct Needs {
    std::string path;
    static void describe(OptionTable<Needs>& t) { t.add("path", &Needs::path).required().doc("the model's folder"); }
  };
  Diagnostics diagnostics;
  const Options<Needs> options(Section{"model", {Layer::file, "c/a.toml", 5}, {}}, diagnostics);
  REQUIRE(diagnostics.size() == 1);
  CHECK(diagnostics.list()[0].text() ==
        "c/a.toml:5: model.path is not set, and it has no default\n    fix: add path to [model]: the model's folder");
}

TEST_CASE("a relative path starts at the folder of its file, and on the command line at the current one") {
  namespace fs = std::filesystem;
  Diagnostics diagnostics;
  const auto file_of = [&](Entry one) { return Options<Sample>(section({std::move(one)}), diagnostics)->file; };
  CHECK(file_of(entry("file", std::string("../d/x.json"))) == (fs::current_path() / "d/x.json").string());
  CHECK(file_of(entry("file", std::string("/abs/x.json"))) == "/abs/x.json");
  CHECK(file_of(entry("file", std::string())).empty());
  CHECK(file_of({"file", std::string("x.json"), {Layer::command_line, "", 0}}) ==
        (fs::current_path() / "x.json").string());
  CHECK(diagnostics.empty());
}

TEST_CASE("a derived value replaces the value and keeps the origin") {
  Options<Sample> options;
  options.derive(&Sample::rank, std::int64_t{5});
  CHECK(options->rank == 5);
  CHECK(value_text(options.resolved()[1].value) == "5");
  CHECK(options.where(&Sample::rank) == "default");
}

}  // namespace options_test
