// Commands that need no tensors load nothing of LibTorch, and runs no library beside the engine that they do not need.
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "end_to_end/program.h"

namespace storeys_test {

using namespace end_to_end;
using capstan::cat;
namespace fs = std::filesystem;

TEST_CASE("commands without tensors open neither the engine nor LibTorch") {
  const Workspace work;
  for (const auto& arguments : std::vector<std::vector<std::string>>{{"--version"},
                                                                     {"--help"},
                                                                     {"run", "--help"},
                                                                     {"report", "."},
                                                                     {"top", "."},
                                                                     {"memory", "."},
                                                                     {"sweep", "--help"},
                                                                     {"tokenize", "--help"},
                                                                     {"import-axolotl", "--help"},
                                                                     {"import-deepspeed", "--help"},
                                                                     {"checkpoint", "ls", "."}}) {
    INFO(capstan::join(arguments, " "));
    const auto opened = opened_by(work, arguments);
    CHECK_THAT(opened, Contains("libcapstan.so") && !Contains("libtorch") && !Contains("libc10") &&
                           !Contains("libcapstan_engine"));
  }
  CHECK_THAT(opened_by(work, {"check", "absent.toml"}),
             Contains("libcapstan_engine.so") && Contains("libtorch_cpu.so"));
}

TEST_CASE("a run on CPUs with numbers opens no library of predictions; check of a GPU does, and what says auto") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config());
  CHECK_THAT(opened_by(work, {"run", file}), Contains("libcapstan_engine.so") && !Contains("libcapstan_predict.so") &&
                                                 !Contains("libcapstan_frozen.so"));
  // Recomputation counts on a dispatch key that the predictions use too.
  const auto again = work.write("again.toml", small_config({{"name", "name = \"again\""}}, "[strategy.recompute]\n"));
  CHECK_THAT(opened_by(work, {"run", again}), !Contains("libcapstan_predict.so"));
  CHECK(fs::exists(work.folder() / "runs/again/summary.json"));
  CHECK(fs::exists(work.folder() / "runs/small/summary.json"));  // it has trained
  CHECK_THAT(opened_by(work, {"check", file, "--gpu", "h100-80g", "run.device=cuda"}),
             Contains("libcapstan_predict.so"));
  CHECK_THAT(opened_by(work, {"check", file, "data.max_length=auto"}), Contains("libcapstan_predict.so"));
}

TEST_CASE("the library that says what is wrong with a run is opened where ranks have something to compare") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({}, "[strategy.fsdp]\n"));
  CHECK_THAT(opened_by(work, {"run", file}), Contains("libcapstan_engine.so") && !Contains("libcapstan_diagnosis.so"));
  CHECK_THAT(opened_by(work, {"run", file, "-n", "2", "run.name=two", "train.micro_batch=2"}),
             Contains("libcapstan_diagnosis.so"));
}

TEST_CASE("the library that looks for a checkpoint is opened by runs that may continue from one") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config());
  CHECK_THAT(opened_by(work, {"run", file}), Contains("libcapstan_engine.so") && !Contains("libcapstan_resume.so"));
  CHECK_THAT(opened_by(work, {"run", file, "checkpoint.resume=auto"}), Contains("libcapstan_resume.so"));
}

TEST_CASE("the library of what only commands ask is opened by check, and by no run") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config());
  CHECK_THAT(opened_by(work, {"run", file}), Contains("libcapstan_engine.so") && !Contains("libcapstan_session.so"));
  CHECK_THAT(opened_by(work, {"check", file}), Contains("libcapstan_session.so"));
}

TEST_CASE(
    "the library of Hugging Face's folders is opened only for one: the model's, or that which a run's end leaves") {
  constexpr auto library = "libcapstan_hf.so";
  const Workspace work;
  const auto file = work.write("a.toml", small_config());
  const std::vector<std::string> short_run{"run", file, "train.max_steps=1"};
  const auto opened = [&](std::vector<std::string> arguments, const std::vector<std::string>& more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    auto said = opened_by(work, arguments);
    CHECK_THAT(said, Contains("libcapstan_engine.so"));
    return said;
  };
  CHECK_THAT(opened({"check", file}, {}), !Contains(library));
  CHECK_THAT(opened(short_run, {"run.name=none", "run.save_weights=false"}), !Contains(library));
  CHECK_FALSE(fs::exists(work.folder() / "runs/none/model"));
  // With its weights a run writes a model folder at its end.
  CHECK_THAT(opened(short_run, {"run.name=saved"}), Contains(library));
  const auto model = work.folder() / "runs/saved/model";
  REQUIRE(fs::exists(model / "model.safetensors"));
  const auto of_folder =
      work.write("b.toml", small_config({{"plugin = \"gpt\"", cat("path = \"", model.string(), "\"")},
                                         {"vocab_size", ""},
                                         {"hidden_size", ""},
                                         {"num_layers", ""},
                                         {"num_heads", ""},
                                         {"ff_dim", ""},
                                         {"seq_length", ""},
                                         {"dropout", ""}}));
  CHECK_THAT(opened({"check", of_folder, "data.tokenizer=byte"}, {}), Contains(library));
}

TEST_CASE("where the engine cannot be opened, check says the host's own faults of a configuration too") {
  const Workspace work;
  const auto lib = work.folder() / "lib";  // in which libcapstan.so looks for the rest of Capstan
  fs::create_directories(lib);
  fs::copy_file(binary_dir() / "lib/libcapstan.so", lib / "libcapstan.so");
  fs::create_directory_symlink(binary_dir() / "lib/capstan", lib / "capstan");
  const auto file = work.write("a.toml", "[train]\nmax_steps = 4\nprecision = \"fp17\"\nmicro_batchs = 2\n");
  const auto check = [&](const std::string& of_engine) {
    const auto outcome = work.start({"check", file}, {{"LD_PRELOAD", (lib / "libcapstan.so").string()}});
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.err, Contains("capstan: error (3 faults)") &&
                                Contains("a.toml:3: train.precision is \"fp17\"") &&
                                Contains("a.toml:4: unknown option train.micro_batchs") &&
                                Contains((lib / "libcapstan_engine.so").string() + ": " + of_engine));
  };
  check("the engine is missing, which this command needs");
  capstan::write_file(lib / "libcapstan_engine.so", "no library");
  check("is no shared library");
}

TEST_CASE("a plugin that brings a LibTorch of its own is named, also when it is opened before the engine") {
  const Workspace work;
  fs::create_directories(work.folder() / "mine/monitor");
  const auto file = work.folder() / "mine/monitor/second_torch.so";
  fs::copy_file(broken_plugin("second_torch"), file);
  const auto list = work.start({"plugins"}, {{"CAPSTAN_PLUGIN_PATH", (work.folder() / "mine").string()}});
  CHECK(list.code == 0);
  CHECK_THAT(list.out,
             Contains(file.string() + ": brings LibTorch into the process, though its note says that it needs none") &&
                 Contains("libtorch_cpu-second.so"));
}

}  // namespace storeys_test
