// The folder that a finished run leaves for other programs, and `capstan export`.
#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "end_to_end/program.h"
#include "end_to_end/results.h"

namespace export_test {

using namespace end_to_end;
using capstan::ExitCode;
using capstan::read_file;
namespace fs = std::filesystem;

namespace {

// Both in one: a run's end and its error codes.
void check_refused(const Workspace& work, const std::vector<std::string>& arguments, const std::string& words) {
  const auto said = work.run(arguments);
  INFO(said.all());
  CHECK(said.code == static_cast<int>(ExitCode::usage));
  CHECK(said.out.empty());
  CHECK_THAT(said.err, Contains(words));
}

}  // namespace

TEST_CASE("a finished run leaves a model folder, the same on any number of ranks, and says where") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config());
  const auto one = work.run({"run", file, "run.deterministic=true"});
  INFO(one.all());
  REQUIRE(one.code == 0);
  const auto run = work.folder() / "runs/small";
  CHECK_THAT(one.out, Contains("model for transformers: runs/small/model (float32, ") &&
                          Contains(" in 1 file; without a tokenizer: this run's has no files)\n"));
  const auto config = read_json(run / "model/config.json");
  CHECK(config.at("architectures") == Json{"GPT2LMHeadModel"});
  CHECK(config.at("n_embd") == 12);
  CHECK(config.at("n_inner") == 22);
  CHECK(config.at("resid_pdrop") == 0);
  CHECK(config.at("embd_pdrop") == 0);
  CHECK(config.at("eos_token_id") == 256);
  CHECK_FALSE(fs::exists(run / "model.tmp"));

  const auto three = work.run({"run", file, "-n", "3", "run.name=three", "strategy.fsdp.mode=full_shard",
                               "train.max_steps=1", "optimizer.lr=0"});
  INFO(three.all());
  REQUIRE(three.code == 0);
  const auto none = work.run({"run", file, "run.name=none", "train.max_steps=1", "optimizer.lr=0"});
  REQUIRE(none.code == 0);
  const auto weights = [&](const char* name) {
    return read_file(work.folder() / "runs" / name / "model/model.safetensors");
  };
  CHECK(weights("three") == weights("none"));
  CHECK(weights("small") != weights("none"));

  const auto off = work.run({"run", file, "run.name=off", "run.save_weights=false", "train.max_steps=1"});
  CHECK(off.code == 0);
  CHECK_FALSE(fs::exists(work.folder() / "runs/off/model"));
  CHECK_THAT(off.out, !Contains("model for transformers"));
}

TEST_CASE("export writes a run again, in another dtype and smaller files; what starts from it is the same model") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config());
  REQUIRE(work.run({"run", file}).code == 0);
  const auto run = (work.folder() / "runs/small").string();
  const auto again = work.run({"export", run, "--to", "hf", "--out", "again"});
  INFO(again.all());
  CHECK(again.code == 0);
  CHECK(read_file(work.folder() / "again/model.safetensors") == read_file(run + "/model/model.safetensors"));
  CHECK(read_file(work.folder() / "again/config.json") == read_file(run + "/model/config.json"));

  const auto half = work.run({"export", run + "/weights", "--out", "half", "--dtype", "bf16", "--shard-gb", "4e-6"});
  INFO(half.all());
  CHECK(half.code == 0);
  CHECK_THAT(half.out, Contains("model for transformers: half (bfloat16, ") && Contains(" files; without"));
  CHECK(read_json(work.folder() / "half/config.json").at("torch_dtype") == "bfloat16");
  CHECK(fs::exists(work.folder() / "half/model.safetensors.index.json"));

  // A run that starts from it and changes nothing writes the same bytes.
  const auto from = work.write("b.toml", small_config({{"plugin = \"gpt\"", "plugin = \"gpt\"\npath = \"again\""}}));
  const auto same =
      work.run({"run", from, "data.tokenizer=byte", "run.name=same", "optimizer.lr=0", "train.max_steps=1"});
  INFO(same.all());
  REQUIRE(same.code == 0);
  CHECK(read_file(work.folder() / "runs/same/model/model.safetensors") ==
        read_file(work.folder() / "again/model.safetensors"));

  check_refused(work, {"export", run},
                "it is there already, and nothing is written over it\n    fix: name another "
                "folder: --out FOLDER; transformers loads this one as it is");
  check_refused(work, {"export", run, "--out", "again"}, "again: it is there already");
  check_refused(work, {"export", "gone"}, "gone: there is no such folder\n    fix: name a run's folder");
  check_refused(work, {"export", "again", "--out", "x"}, "again: it holds no config.toml: this is no run's folder");
  check_refused(work, {"export", run, "--dtype", "int8"}, "--dtype");
  check_refused(work, {"export", run, "--to", "gguf"}, "--to");
  check_refused(work, {"export", run, "--shard-gb", "0"}, "--shard-gb: 0 is no number above 0");
}

TEST_CASE("flags of other programs are answered with the option that does it") {
  const Workspace work;
  check_refused(work, {"run", "a.toml", "--learning_rate", "5e-5", "--deepspeed=x.json"},
                "command line: there is no flag --learning_rate: an option is set as table.option=value\n    fix: did "
                "you mean 'optimizer.lr'? (TrainingArguments' learning_rate)\ncommand line: there is no flag "
                "--deepspeed: ");
  check_refused(work, {"run", "a.toml", "--nproc-per-node=4"},
                "there is no flag --nproc-per-node: an option is set as table.option=value\n    fix: not needed, "
                "launchers' nproc_per_node: `capstan run C.toml -n N` starts N ranks here");
  check_refused(work, {"run", "--factory", "llama31_8b"}, "did you mean 'model.path'? (NeMo's --factory; a recipe is");
}

}  // namespace export_test
