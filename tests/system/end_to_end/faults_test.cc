// Every fault of a configuration that a user can write: its message, where it points to, and the exit code.
#include <capstan/base/exit_code.h>
#include <capstan_catch.h>

#include "end_to_end/program.h"

using namespace end_to_end;
using capstan::ExitCode;

namespace {

constexpr int usage = static_cast<int>(ExitCode::usage);

// Runs check and run: both must end with the same words on standard error, `error`, and exit code 2, and leave
// nothing. Returns what stands on standard error.
std::string refusal(const Workspace& work, const std::string& config, const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> arguments{"check", config};
  arguments.insert(arguments.end(), overrides.begin(), overrides.end());
  const auto checked = work.run(arguments);
  CHECK(checked.code == usage);
  CHECK(checked.out.empty());
  arguments.front() = "run";
  const auto ran = work.run(arguments);
  CHECK(ran.code == usage);
  CHECK(ran.out.empty());
  CHECK(ran.err == checked.err);
  CHECK_FALSE(std::filesystem::exists(work.folder() / "runs"));
  return checked.err;
}

// What stands on standard error for one fault of a small configuration.
std::string one_fault(const std::string& where, const std::string& what, const std::string& fix) {
  return "capstan: error\n" + where + ": " + what + "\n" + (fix.empty() ? "" : "    fix: " + fix + "\n");
}

}  // namespace

TEST_CASE("a configuration that does not exist, with the nearest name") {
  const Workspace work;
  work.write("small.toml", small_config());
  const auto wrong = (work.folder() / "smal.toml").string();
  CHECK(refusal(work, wrong) ==
        one_fault(wrong, "the file does not exist", "did you mean '" + (work.folder() / "small.toml").string() + "'?"));
}

TEST_CASE("a configuration that is no TOML, with its line") {
  const Workspace work;
  const auto file = work.write("a.toml", "[train]\nmax_steps = = 3\n");
  const auto said = refusal(work, file);
  CHECK_THAT(said, Contains(file + ":2: not valid TOML: "));
}

TEST_CASE("unknown options and tables, with the nearest name, the file and the line") {
  const Workspace work;
  SECTION("an option of the host") {
    const auto file = work.write("a.toml", small_config({{"max_steps", "max_step = 8"}}));
    const auto said = refusal(work, file);
    CHECK_THAT(said, Contains(work.where(file, "max_step =") +
                              ": unknown option train.max_step\n    fix: did you mean 'max_steps'?\n"));
  }
  SECTION("an option of a plugin") {
    const auto file = work.write("a.toml", small_config({{"hidden_size", "hiden_size = 12"}}));
    CHECK(refusal(work, file) ==
          one_fault(work.where(file, "hiden_size"), "unknown option model.hiden_size", "did you mean 'hidden_size'?"));
  }
  SECTION("a table") {
    const auto file = work.write("a.toml", small_config({}, "[optimiser]\nclip = 2.0\n"));
    CHECK(refusal(work, file) ==
          one_fault(work.where(file, "[optimiser]"), "unknown table [optimiser]", "did you mean 'optimizer'?"));
  }
  SECTION("on the command line") {
    const auto file = work.write("a.toml", small_config());
    CHECK(refusal(work, file, {"optimizer.learning_rate=1"}) ==
          one_fault("command line", "unknown option optimizer.learning_rate",
                    "did you mean 'optimizer.lr'? (TrainingArguments' learning_rate)"));
    CHECK(refusal(work, file, {"optimizer.speed=1"}) ==
          one_fault("command line", "unknown option optimizer.speed",
                    "one of: lr, weight_decay, decay, schedule, warmup_steps, warmup_ratio, warmup_from_zero, "
                    "min_lr, decay_steps, decay_ratio, decay_shape, restarts, clip, plugin, betas, eps"));
  }
}

TEST_CASE("wrong types and values out of range, with file and line") {
  const Workspace work;
  const auto fault = [&](const std::string& old, const std::string& line, const std::string& what,
                         const std::string& fix) {
    const auto file = work.write("a.toml", small_config({{old, line}}));
    CHECK(refusal(work, file) == one_fault(work.where(file, line), what, fix));
  };
  fault("seed", "seed = \"three\"", "run.seed is \"three\" (a string), but must be an integer", "for example seed = 1");
  fault("micro_batch", "micro_batch = 4.0", "train.micro_batch is 4.0 (a number), but must be an integer", "write 4");
  fault("name", "name = 3", "run.name is 3 (an integer), but must be a string", "write \"3\"");
  fault("dropout", "dropout = 1.5", "model.dropout is 1.5, but must be between 0 and 0.99", "");
  fault("lr", "lr = -1.0", "optimizer.lr is -1.0, but must be at least 0", "");
  fault("device", "device = \"gpu\"", "run.device is \"gpu\", but must be one of \"auto\", \"cpu\", \"cuda\"",
        "did you mean 'cpu'?");
}

TEST_CASE("an override that is none") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config());
  CHECK(refusal(work, file, {"max_steps"}) ==
        one_fault("command line", "'max_steps' is no override: it has no '='",
                  "write it as table.option=value, for example train.max_steps=250"));
  CHECK(refusal(work, file, {"max_steps=3"}) ==
        one_fault("command line", "'max_steps=3' names no option of a table",
                  "did you mean 'train.max_steps'? (TrainingArguments' max_steps)"));
  CHECK(refusal(work, file, {"steps=3"}) ==
        one_fault("command line", "'steps=3' names no option of a table",
                  "write it as table.option=value, for example train.max_steps=250"));
  CHECK_THAT(refusal(work, file, {"optimizer.betas=[0.9"}), Contains("command line: [0.9 is not a TOML value: "));
}

TEST_CASE("extends that goes in a circle, and one that leads nowhere") {
  const Workspace work;
  const auto a = work.write("a.toml", "extends = \"b.toml\"\n");
  const auto b = work.write("b.toml", "extends = \"a.toml\"\n");
  CHECK(refusal(work, a) ==
        one_fault(b + ":1", "extends goes in a circle: " + a + " -> " + b + " -> " + a, "remove one of these extends"));
  const auto c = work.write("c.toml", "extends = \"none.toml\"\n");
  CHECK(refusal(work, c) ==
        one_fault(c + ":1", "extends \"none.toml\", but " + (work.folder() / "none.toml").string() + " does not exist",
                  "the name is taken from the folder of the file that extends"));
}

TEST_CASE("a batch that does not divide, with the arithmetic and the nearest sizes") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({{"global_batch", "global_batch = 13"}}));
  CHECK(
      refusal(work, file) ==
      one_fault(work.where(file, "global_batch"),
                "global_batch 13 is not a multiple of micro_batch 4 x data-parallel size 1 = 4",
                "global_batch = 12 or 16 works with micro_batch 4; micro_batch = 1 or 13 works with global_batch 13"));
}

TEST_CASE("the batch is judged for the number of ranks that the run will have") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config());
  CHECK(work.run({"check", file, "-n", "3"}).code == 0);
  const auto checked = work.run({"check", file, "-n", "2"});
  CHECK(checked.code == usage);
  CHECK(checked.err ==
        one_fault(work.where(file, "global_batch"),
                  "global_batch 12 is not a multiple of micro_batch 4 x data-parallel size 2 = 8",
                  "global_batch = 8 or 16 works with micro_batch 4; micro_batch = 3 or 6 works with global_batch 12"));
}

TEST_CASE("a run without a length") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({{"max_steps", ""}}));
  CHECK(refusal(work, file) ==
        one_fault(work.where(file, "[train]"), "neither train.max_steps nor train.epochs is set", "set one of them"));
}

TEST_CASE("data: no file, a file that is cut off, fewer questions than asked for") {
  const Workspace work;
  SECTION("no file") {
    const auto file = work.write("a.toml", small_config({{"train = ", "train = \"none.json\""}}));
    CHECK(refusal(work, file) ==
          one_fault(work.where(file, "none.json"),
                    "data.train: there is no file " + (work.folder() / "none.json").string(),
                    "tools/get-squad FOLDER downloads the official files, tools/make-quickstart-data "
                    "makes the quickstart's"));
  }
  SECTION("cut off") {
    const auto json = work.write("cut.json", "{\"data\": [{\"title\": \"A\",\n\"paragraphs\": [");
    const auto file = work.write("a.toml", small_config({{"train = ", "train = \"cut.json\""}}));
    CHECK(refusal(work, file) == one_fault(json, "the file ends before its JSON does, at byte 40 (line 2)",
                                           "it is cut off: fetch or write it again"));
  }
  SECTION("too few") {
    const auto file = work.write("a.toml", small_config({{"train_samples", "train_samples = 100000"}}));
    const auto data = (source_dir() / "configs/data/mini_squad_train.json").string();
    CHECK(refusal(work, file) == one_fault(work.where(file, "train_samples"),
                                           "data.train_samples is 100,000, " + data + " holds 360 questions",
                                           "use 360 or less, or leave data.train_samples out for all of them"));
  }
}

TEST_CASE("a model that does not fit its data or itself") {
  const Workspace work;
  SECTION("token ids beyond the vocabulary") {
    const auto file = work.write("a.toml", small_config({{"vocab_size", "vocab_size = 257"}}));
    CHECK(refusal(work, file) ==
          one_fault(work.where(file, "vocab_size"), "the tokenizer 'byte' has 258 ids, the model's vocab_size is 257",
                    "set the model's vocab_size to at least 258, or name the tokenizer that the model was made for"));
  }
  SECTION("a tokenizer that is not there") {
    const auto file =
        work.write("a.toml", small_config({{"plugin = \"squad\"", "plugin = \"squad\"\ntokenizer = \"bytes\""}}));
    CHECK(refusal(work, file) ==
          one_fault(work.where(file, "tokenizer"), "there is no tokenizer 'bytes'", "did you mean 'byte'?"));
    const auto path = work.write(
        "b.toml", small_config({{"plugin = \"squad\"", "plugin = \"squad\"\ntokenizer = \"bpe/tokenizer.json\""}}));
    CHECK(refusal(work, path) == one_fault(work.where(path, "tokenizer"),
                                           "there is no tokenizer " + (work.folder() / "bpe/tokenizer.json").string(),
                                           "name a tokenizer.json, or a folder that holds one"));
  }
  SECTION("a tokenizer.json that is none, named from the configuration's folder") {
    work.write("tokenizer.json", "{}");
    const auto file = work.write(
        "a.toml", small_config({{"plugin = \"squad\"", "plugin = \"squad\"\ntokenizer = \"tokenizer.json\""}}));
    CHECK_THAT(refusal(work, file), Contains((work.folder() / "tokenizer.json").string() +
                                             ": it is no tokenizer.json: it has no \"model\""));
  }
  SECTION("samples longer than the positions") {
    const auto file = work.write("a.toml", small_config({{"max_length", "max_length = 200"}}));
    CHECK(refusal(work, file) == one_fault(work.where(file, "max_length"),
                                           "max_length 200 is more than the model's 130 positions",
                                           "use max_length = 130 or less, or a model with more positions"));
  }
  SECTION("heads") {
    const auto file = work.write("a.toml", small_config({{"hidden_size", "hidden_size = 13"}}));
    CHECK(refusal(work, file) == one_fault(work.where(file, "hidden_size"),
                                           "model.hidden_size 13 is not divisible by model.num_heads 3",
                                           "use hidden_size 15 or another number of heads"));
  }
  SECTION("a folder without config.json") {
    const auto file = work.write("a.toml", small_config({}, "[model.x]\n"));
    const auto plain =
        work.write("b.toml", small_config({{"plugin = \"gpt\"", "plugin = \"gpt\"\npath = \"weights\""}}));
    std::filesystem::create_directory(work.folder() / "weights");
    CHECK(refusal(work, plain) ==
          one_fault(work.where(plain, "path ="),
                    "model.path: there is no file " + (work.folder() / "weights/config.json").string(),
                    "name a Hugging Face model folder, with config.json and *.safetensors"));
  }
}

TEST_CASE("plugins that are not there or cannot be used, with every path that was tried") {
  const Workspace work;
  const auto builtin = (std::filesystem::canonical(binary_dir()) / "lib/capstan/plugins").string();
  SECTION("unknown") {
    const auto file = work.write("a.toml", small_config({{"plugin = \"gpt\"", "plugin = \"gtp\""}}));
    CHECK(refusal(work, file) ==
          one_fault(work.where(file, "gtp"),
                    "there is no model plugin 'gtp'; looked for\n      " + builtin + "/model/gtp.so",
                    "did you mean 'gpt'?"));
  }
  SECTION("unknown, with a plugin path") {
    const auto file = work.write("a.toml", small_config({}, "[strategy.fdsp]\n"));
    const auto checked = work.run({"check", file}, {{"CAPSTAN_PLUGIN_PATH", work.folder().string()}});
    CHECK(checked.code == usage);
    CHECK(checked.err == one_fault(work.where(file, "fdsp"),
                                   "there is no strategy plugin 'fdsp'; looked for\n      " + work.folder().string() +
                                       "/strategy/fdsp.so\n      " + work.folder().string() + "/fdsp.so\n      " +
                                       builtin + "/strategy/fdsp.so",
                                   "did you mean 'fsdp'?"));
  }
  SECTION("broken") {
    const auto refused = [&](const std::string& kind, const std::string& name) {
      const auto so = broken_plugin(name);
      const auto file =
          work.write(name + ".toml", small_config({}, "[" + kind + "." + name + "]\npath = \"" + so + "\"\n"));
      auto said = refusal(work, file);
      CHECK_THAT(said, Contains(so + ": "));  // the file is named
      return said;
    };
    CHECK_THAT(refused("strategy", "good"), Contains("is a monitor plugin, and a strategy plugin is needed here"));
    CHECK_THAT(refused("monitor", "no_entry"), Contains("has no entry: it does not export capstan_plugin()"));
    CHECK_THAT(refused("monitor", "wrong_tag"), Contains("torch") && Contains("1.0.0"));
    CHECK_THAT(refused("monitor", "throwing_register"), Contains("failed to register: the licence server is asleep"));
    CHECK_THAT(refused("monitor", "missing_library"),
               Contains("needs the shared library libfixture_gone.so, which is not found"));
    CHECK_THAT(refused("monitor", "host_option"),
               Contains("declares the option 'enabled', which the host reads itself in such a table"));
  }
}

TEST_CASE("two strategies that claim parameter storage, both named with their lines") {
  const Workspace work;
  const auto file =
      work.write("a.toml", small_config({}, "[strategy.fsdp]\nmode = \"full_shard\"\n[strategy.owner]\npath = \"" +
                                                fixture("strategy", "owner") + "\"\n"));
  const auto fsdp = work.where(file, "[strategy.fsdp]");
  const auto owner = work.where(file, "path =");
  CHECK(refusal(work, file) == one_fault(owner,
                                         "strategies 'fsdp' (" + fsdp + ") and 'owner' both claim parameter storage",
                                         "remove one of them, or set strategy.owner.enabled = false"));
  CHECK(work.run({"check", file, "strategy.owner.enabled=false"}).code == 0);
}

TEST_CASE("all faults at once") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({{"seed", "sed = 3"},
                                                       {"hidden_size", "hidden_size = 13"},
                                                       {"train = ", "train = \"none.json\""},
                                                       {"global_batch", "global_batch = 13"},
                                                       {"lr", "lr = \"fast\""}},
                                                      "[monitor.consol]\n"));
  const auto said = refusal(work, file, {"optimizer.clip=-1"});
  CHECK_THAT(said, Contains("capstan: error (7 faults)\n"));
  CHECK_THAT(said, Contains(work.where(file, "sed =") + ": unknown option run.sed\n"));
  CHECK_THAT(said, Contains(work.where(file, "hidden_size") + ": model.hidden_size 13 is not divisible"));
  CHECK_THAT(said, Contains(work.where(file, "none.json") + ": data.train: there is no file"));
  CHECK_THAT(said, Contains(work.where(file, "global_batch") + ": global_batch 13 is not a multiple"));
  CHECK_THAT(said, Contains(work.where(file, "lr =") + ": optimizer.lr is \"fast\" (a string), but must be a number"));
  CHECK_THAT(said, Contains(work.where(file, "consol]") + ": there is no monitor plugin 'consol'"));
  CHECK_THAT(said, Contains("command line: optimizer.clip is -1, but must be at least 0"));
}

TEST_CASE("a GPU is asked for where there is none") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({{"device", "device = \"cuda\""}}));
  CHECK(work.run({"check", file}).code == 0);  // may be judged on a login node
  // An empty list hides the GPUs of a machine that has some.
  const auto ran = work.run({"run", file}, {{"CUDA_VISIBLE_DEVICES", ""}});
  CHECK(ran.code == static_cast<int>(ExitCode::failure));
  const bool has_module = std::filesystem::exists(binary_dir() / "lib" / "libcapstan_cuda.so");
  CHECK_THAT(ran.err, Contains(has_module ? "finds no NVIDIA driver" : "this build has no GPU module"));
  CHECK_THAT(ran.err, Contains("fix: "));
}
