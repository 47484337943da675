// What is said of a configuration that is refused, where it points to, and what is to be done: as `check` prints it,
// and `run` with it (tests/system/end_to_end/faults_test.cc).
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include <sys/stat.h>

#include "ranks/judged.h"

namespace refused_test {

using namespace judged;

namespace {

// The small configuration with one change.
struct Fault {
  std::string old, line;  // the line that begins so is replaced by this; nothing: this is added at the end
  std::string at;         // what the line holds that is named
  std::string what, fix;
};

const std::string squad = "plugin = \"squad\"";

std::vector<Fault> faults() {
  return {
      {"hidden_size", "hiden_size = 12", "hiden_size", "unknown option model.hiden_size",
       "did you mean 'hidden_size'?"},
      {"", "[optimiser]\nclip = 2.0\n", "[optimiser]", "unknown table [optimiser]", "did you mean 'optimizer'?"},
      {"seed", "seed = \"three\"", "seed", "run.seed is \"three\" (a string), but must be an integer",
       "for example seed = 1"},
      {"micro_batch", "micro_batch = 4.0", "micro_batch", "train.micro_batch is 4.0 (a number), but must be an integer",
       "write 4"},
      {"name", "name = 3", "name =", "run.name is 3 (an integer), but must be a string", "write \"3\""},
      {"dropout", "dropout = 1.5", "dropout", "model.dropout is 1.5, but must be between 0 and 0.99", ""},
      {"lr", "lr = -1.0", "lr =", "optimizer.lr is -1.0, but must be between 0 and 1000000", ""},
      {"device", "device = \"gpu\"", "device", "run.device is \"gpu\", but must be one of \"auto\", \"cpu\", \"cuda\"",
       "did you mean 'cpu'?"},
      {"global_batch", "global_batch = 13", "global_batch",
       "global_batch 13 is not a multiple of micro_batch 4 x data-parallel size 1 = 4",
       "global_batch = 12 or 16 works with micro_batch 4; micro_batch = 1 or 13 works with global_batch 13"},
      {"max_steps", "", "[train]", "neither train.max_steps nor train.epochs is set", "set one of them"},
      {"vocab_size", "vocab_size = 257", "vocab_size",
       "the tokenizer 'byte' has 258 ids, the model's vocab_size is 257",
       "set the model's vocab_size to at least 258, or name the tokenizer that the model was made for"},
      {squad, squad + "\ntokenizer = \"bytes\"", "tokenizer", "there is no tokenizer 'bytes'", "did you mean 'byte'?"},
      {squad, squad + "\ntokenizer = \"bpe/tokenizer.json\"", "tokenizer",
       "there is no tokenizer FOLDER/bpe/tokenizer.json", "name a tokenizer.json, or a folder that holds one"},
      {"max_length", "max_length = 200", "max_length", "max_length 200 is more than the model's 130 positions",
       "use max_length = 130 or less, or a model with more positions"},
      {"hidden_size", "hidden_size = 13", "hidden_size", "model.hidden_size 13 is not divisible by model.num_heads 3",
       "use hidden_size 15 or another number of heads"},
      {"plugin = \"gpt\"", "plugin = \"gpt\"\npath = \"weights\"",
       "path =", "model.path: there is no file FOLDER/weights/config.json",
       "name a Hugging Face model folder, with config.json and *.safetensors"},
      {"plugin = \"gpt\"", "plugin = \"gtp\"", "gtp",
       "there is no model plugin 'gtp'; looked for\n      PLUGINS/model/gtp.so", "did you mean 'gpt'?"},
      {"train = ", "train = \"none.json\"", "none.json", "data.train: there is no file FOLDER/none.json",
       "tools/get-squad FOLDER downloads the official files, tools/make-quickstart-data makes the quickstart's"},
      {"train_samples", "train_samples = 100000", "train_samples",
       "data.train_samples is 100,000, TREE/configs/data/mini_squad_train.json holds 360 questions",
       "use 360 or less, or leave data.train_samples out for all of them"},
  };
}

std::string replaced(std::string text, const std::string& name, const std::string& by) {
  for (auto at = text.find(name); at != std::string::npos; at = text.find(name, at + by.size()))
    text.replace(at, name.size(), by);
  return text;
}

const std::string builtin_plugins = (std::filesystem::canonical(CAPSTAN_BINARY_DIR) / "lib/capstan/plugins").string();

}  // namespace

TEST_CASE("one fault of a small configuration: its line, what it is, what to write instead") {
  const test::Folder work;
  std::filesystem::create_directory(work / "weights");
  for (const auto& fault : faults()) {
    const auto file = work.write(
        "a.toml", fault.old.empty() ? small_config({}, fault.line) : small_config({{fault.old, fault.line}}));
    auto what = replaced(fault.what, "FOLDER", work.path().string());
    what = replaced(replaced(what, "TREE", CAPSTAN_SOURCE_DIR), "PLUGINS", builtin_plugins);
    CHECK(refusal(file) == one_fault(test::line_of(file, fault.at), what, fault.fix));
  }
}

TEST_CASE("an option of the host that is unknown, and options on the command line") {
  const test::Folder work;
  const auto misspelt = work.write("b.toml", small_config({{"max_steps", "max_step = 8"}}));
  CHECK_THAT(refusal(misspelt), Contains(test::line_of(misspelt, "max_step =") +
                                         ": unknown option train.max_step\n    fix: did you mean 'max_steps'?\n"));
  const auto file = work.write("a.toml", small_config());
  CHECK(refusal(file, {"optimizer.speed=1"}) ==
        one_fault("command line", "unknown option optimizer.speed",
                  "one of: lr, weight_decay, decay, schedule, warmup_steps, warmup_ratio, warmup_from_zero, "
                  "min_lr, decay_steps, decay_ratio, decay_shape, restarts, clip, plugin, betas, eps"));
}

TEST_CASE("a configuration that does not exist, with the nearest name") {
  const test::Folder work;
  work.write("small.toml", small_config());
  const auto wrong = (work / "smal.toml").string();
  CHECK(refusal(wrong) ==
        one_fault(wrong, "the file does not exist", "did you mean '" + (work / "small.toml").string() + "'?"));
}

TEST_CASE("a configuration that is no TOML, with its line") {
  const test::Folder work;
  const auto file = work.write("a.toml", "[train]\nmax_steps = = 3\n");
  const auto said = refusal(file);
  CHECK_THAT(said, Contains(file + ":2: not valid TOML: "));
}

TEST_CASE("an override that is none") {
  const test::Folder work;
  const auto file = work.write("a.toml", small_config());
  CHECK(refusal(file, {"max_steps"}) == one_fault("command line", "'max_steps' is no override: it has no '='",
                                                  "write it as table.option=value, for example train.max_steps=250"));
  CHECK(refusal(file, {"steps=3"}) == one_fault("command line", "'steps=3' names no option of a table",
                                                "write it as table.option=value, for example train.max_steps=250"));
  CHECK_THAT(refusal(file, {"optimizer.betas=[0.9"}), Contains("command line: [0.9 is not a TOML value: "));
}

TEST_CASE("extends that goes in a circle, and one that leads nowhere") {
  const test::Folder work;
  const auto a = work.write("a.toml", "extends = \"b.toml\"\n");
  const auto b = work.write("b.toml", "extends = \"a.toml\"\n");
  CHECK(refusal(a) ==
        one_fault(b + ":1", "extends goes in a circle: " + a + " -> " + b + " -> " + a, "remove one of these extends"));
  const auto c = work.write("c.toml", "extends = \"none.toml\"\n");
  CHECK(refusal(c) == one_fault(c + ":1",
                                "extends \"none.toml\", but " + (work / "none.toml").string() + " does not exist",
                                "the name is taken from the folder of the file that extends"));
}

TEST_CASE("the batch is judged for the number of ranks that the run will have") {
  const test::Folder work;
  const auto file = work.write("a.toml", small_config());
  CHECK(refusal(file, {}, 3).empty());
  CHECK(refusal(file, {}, 2) ==
        one_fault(test::line_of(file, "global_batch"),
                  "global_batch 12 is not a multiple of micro_batch 4 x data-parallel size 2 = 8",
                  "global_batch = 8 or 16 works with micro_batch 4; micro_batch = 3 or 6 works with global_batch 12"));
}

TEST_CASE("files that hold something else are named themselves, from the configuration's folder") {
  const test::Folder work;
  const auto json = work.write("cut.json", "{\"data\": [{\"title\": \"A\",\n\"paragraphs\": [");
  const auto cut = work.write("a.toml", small_config({{"train = ", "train = \"cut.json\""}}));
  CHECK(refusal(cut) == one_fault(json, "the file ends before its JSON does, at byte 40 (line 2)",
                                  "it is cut off: fetch or write it again"));
  work.write("tokenizer.json", "{}");
  const auto file = work.write("a.toml", small_config({{squad, squad + "\ntokenizer = \"tokenizer.json\""}}));
  CHECK_THAT(refusal(file),
             Contains((work / "tokenizer.json").string() + ": it is no tokenizer.json: it has no \"model\""));
}

TEST_CASE("a plugin that is not there, with every path that was tried") {
  const test::Folder work;
  const auto file = work.write("a.toml", small_config({}, "[strategy.fdsp]\n"));
  const auto own = work.path().string();
  CHECK(refusal(file, {}, 1, {{"CAPSTAN_PLUGIN_PATH", own}}) ==
        one_fault(test::line_of(file, "fdsp"),
                  "there is no strategy plugin 'fdsp'; looked for\n      " + own + "/strategy/fdsp.so\n      " + own +
                      "/fdsp.so\n      " + builtin_plugins + "/strategy/fdsp.so",
                  "did you mean 'fsdp'?"));
}

TEST_CASE("plugins that cannot be used, with the file and the reason") {
  const test::Folder work;
  for (const auto& [kind, name, words] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {"strategy", "good", "is a monitor plugin, and a strategy plugin is needed here"},
           {"monitor", "no_entry", "has no entry: it does not export capstan_plugin()"},
           {"monitor", "wrong_tag", "1.0.0"},
           {"monitor", "throwing_register", "failed to register: the licence server is asleep"},
           {"monitor", "missing_library", "needs the shared library libfixture_gone.so, which is not found"},
           {"monitor", "host_option", "declares the option 'enabled', which the host reads itself in such a table"}}) {
    const auto so = fixture("fixtures/monitor", name);
    const auto file =
        work.write(name + ".toml", small_config({}, capstan::cat("[", kind, ".", name, "]\npath = \"", so, "\"\n")));
    CHECK_THAT(refusal(file), Contains(so + ": ") && Contains(words));
  }
}

TEST_CASE("two strategies that claim parameter storage, both named with their lines") {
  const test::Folder work;
  const auto file =
      work.write("a.toml", small_config({}, "[strategy.fsdp]\nmode = \"full_shard\"\n[strategy.owner]\npath = \"" +
                                                fixture("run_fixtures/strategy", "owner") + "\"\n"));
  const auto fsdp = test::line_of(file, "[strategy.fsdp]");
  const auto owner = test::line_of(file, "path =");
  CHECK(refusal(file) == one_fault(owner, "strategies 'fsdp' (" + fsdp + ") and 'owner' both claim parameter storage",
                                   "remove one of them, or set strategy.owner.enabled = false"));
  CHECK(refusal(file, {"strategy.owner.enabled=false"}).empty());
}

TEST_CASE("numbers at their limits are refused with the limit") {
  const test::Folder work;
  const auto file = work.write("a.toml", small_config());
  for (const auto& [override, words] : std::vector<std::pair<std::string, std::string>>{
           {"model.vocab_size=900000000000000", "the model has more than 1,000,000,000,000,000 parameters"},
           {"optimizer.warmup_steps=9223372036854775807", "must be at most 1000000000000000"},
           {"strategy.lora.rank=9223372036854775807", "must be between 1 and 65536"},
           {"model.num_layers=100000", "must be between 1 and 4096"},
           {"train.pad_to_multiple=9223372036854775807", "must be between 0 and 65536"}})
    CHECK_THAT(refusal(file, {override}), Contains(words));
  const auto all = [&](const std::string& number, const std::vector<std::string>& options) {
    Overrides overrides;
    for (const auto& option : options) overrides.push_back(capstan::cat(option, "=", number));
    const auto said = refusal(file, overrides);
    for (const auto& option : options) CHECK_THAT(said, Contains(option + " is ") && Contains(", but must be "));
    CHECK_THAT(said, Contains(capstan::cat("(", options.size(), " faults)")));
  };
  all("1e308", {"comm.timeout_s", "comm.silence_s", "comm.connect_timeout_s", "run.host_memory",
                "preflight.gemm_seconds", "monitor.memory_log.interval_s", "monitor.mlflow.interval_s",
                "monitor.utilisation.interval_s", "monitor.wandb.system_interval_s"});
  all("9223372036854775807", {"train.eval_batch", "train.accumulation"});
}

TEST_CASE("what is no file that can be read is named, and not waited for") {
  const test::Folder work;
  const auto file = work.write("a.toml", small_config());
  std::string keys;
  for (int i = 0; i < 200000; ++i) keys += capstan::cat("k", i, " = 1\n");
  CHECK_THAT(refusal(work.write("keys.toml", small_config({}, "[model.x]\n" + keys))),
             Contains("keys, more than any configuration needs"));
  const auto pipe = (work / "pipe").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const std::string option : {"data.train=", "data.tokenizer=", "model.path="})
    CHECK_THAT(refusal(file, {option + pipe}), Contains(pipe) && Contains("fix: "));
  CHECK_THAT(refusal(file, {"run.cache=/dev/null"}), Contains("run.cache is /dev/null, which is no folder"));
}

TEST_CASE("steps and ranks to be traced that the run will not have are refused before it") {
  const test::Folder work;
  const auto file = work.write("a.toml", small_config({}, "[monitor.trace]\nsteps = [1, 999]\nranks = [7]\n"));
  CHECK_THAT(
      refusal(file, {"train.max_steps=4", "train.micro_batch=2"}, 2),
      Contains(test::line_of(file, "steps = [") + ": monitor.trace.steps names step 999, but the run has 4 steps") &&
          Contains("fix: name steps from 0 to 3") &&
          Contains("monitor.trace.ranks names rank 7, but the run has 2 ranks"));
  CHECK_THAT(refusal(file, {"monitor.trace.enabled=false", "train.max_steps=4", "monitor.memory_snapshot.steps=[4]"}),
             Contains("monitor.memory_snapshot.steps names step 4"));
}

TEST_CASE("a run that cannot be sent as it is to be is refused on the rank that would send it") {
  const test::Folder work;
  const auto file =
      work.write("a.toml", small_config({}, "[monitor.wandb]\nmode = \"online\"\npython = \"/nowhere/python3\"\n"));
  const Overrides two{"train.micro_batch=2"};
  CHECK_THAT(refusal(file, two, 2),
             Contains(test::line_of(file, "mode = ") + ": monitor.wandb.mode is \"online\", and "
                                                       "cannot start /nowhere/python3: No such file or directory") &&
                 Contains("fix: install Python 3 and wandb"));
  CHECK(refusal(file, two, 2, {}, 1).empty());
  CHECK(refusal(file, {"train.micro_batch=2", "monitor.wandb.mode=offline"}, 2).empty());
}

TEST_CASE("a metric that evaluations do not give is refused with those that they do") {
  const test::Folder work;
  const auto file = work.write("a.toml", small_config({}, "[checkpoint]\nkeep_best = true\nmetric = \"eval_los\"\n"));
  CHECK_THAT(refusal(file), Contains(test::line_of(file, "metric = ") +
                                     ": checkpoint.metric is 'eval_los', which the evaluations do not give") &&
                                Contains("did you mean 'eval_loss'?"));
  CHECK_THAT(refusal(file, {"checkpoint.metric=eval_f1"}),
             Contains("checkpoint.metric is 'eval_f1', but evaluations answer no questions") &&
                 Contains("set train.generate_each_eval = true"));
  CHECK_THAT(refusal(file, {"checkpoint.metric=bleu"}),
             Contains("which the evaluations do not give") && Contains("eval_exact_match, eval_f1, eval_loss"));
}

TEST_CASE("files of monitors are the run's own, and no others") {
  const test::Folder work;
  const auto file = work.write("a.toml", small_config({}, "[monitor.csv]\n"));
  for (const std::string name : {"/etc/passwd", "../../x.csv", "config.toml", "metrics.jsonl"}) {
    CHECK_THAT(refusal(file, {"monitor.csv.file=" + name}),
               Contains(capstan::cat("monitor.csv.file is \"", name, "\", which ")) &&
                   Contains("fix: give the name of a file in the run's folder"));
  }
}

}  // namespace refused_test
