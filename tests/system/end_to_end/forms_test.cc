// Every form of every command's argument that README.md has a row for, on one trained run.
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "end_to_end/program.h"

namespace forms_test {

using namespace end_to_end;
using capstan::cat;
namespace fs = std::filesystem;

namespace {

struct Form {
  std::vector<std::string> words;
  std::string says;  // on standard output
};

// A model of the hub as huggingface_hub keeps it.
void put_into_hub(const fs::path& model, const fs::path& hub) {
  const auto repository = hub / "models--me--small";
  const std::string commit(40, 'a');
  fs::create_directories(repository / "refs");
  fs::create_directories(repository / "snapshots");
  std::ofstream(repository / "refs/main") << commit;
  fs::copy(model, repository / "snapshots" / commit, fs::copy_options::recursive);
}

// What asks for a model that a name means: its data stand in the configuration only where that is one.
std::vector<Form> of_models(const std::string& file) {
  const std::string run = "runs/small", checkpoint = "runs/small/checkpoints/step-00000002",
                    folder = "runs/small/model";
  std::vector<Form> forms;
  for (const auto& name : {run, checkpoint}) {
    forms.push_back({{"generate", name, "Question: a"}, ""});
    forms.push_back({{"generate", name, "Question: a", "Question: b"}, ""});
  }
  for (const auto& name : {file, run, checkpoint}) forms.push_back({{"eval", name}, "loss"});
  const auto questions = (source_dir() / "configs/data/mini_squad_eval.json").string();
  for (const auto& name : {folder, folder + "/", std::string("me/small")}) {
    forms.push_back({{"generate", name, "Question: a"}, ""});  // a folder without a tokenizer is read as bytes
    forms.push_back({{"generate", name, "Question: a", "--set", "data.tokenizer=byte"}, ""});
    forms.push_back(
        {{"eval", name, "data.plugin=squad", cat("data.eval=", questions), "data.max_length=97", "data.tokenizer=byte"},
         "loss"});
  }
  return forms;
}

std::vector<Form> of_runs_and_files(const std::string& file) {
  const std::string run = "runs/small";
  return {{{"check", file}, "no faults found"},
          {{"check", file, "-n", "3", "--nodes", "3"}, "no faults found"},
          {{"plan", file, "--gpus", "2", "--gpu", "h100-80g", "run.device=cuda"}, "micro"},
          {{"data", file}, "Question"},
          {{"plugins"}, "strategy"},
          {{"plugins", "data"}, "squad"},
          {{"plugins", "gpt"}, "Table: [model] plugin = \"gpt\""},
          {{"reference"}, "## [train]"},
          {{"reference", "accumulation"}, "[train]"},
          {{"export", run, "--to", "hf", "--out", "exported"}, ""},
          {{"checkpoint", "ls", run}, "step-00000002"},
          {{"checkpoint", "verify", run}, ""},
          {{"checkpoint", "show", run}, ""},
          {{"memory", run}, ""},
          {{"trace", run}, ""},
          {{"preflight", file}, "PASS"},
          {{"report", run, run}, "small"},
          {{"sweep", file, "--gpus", "1", "train.max_steps=2,3"}, ""},
          {{"top", run}, "step 2/2"},
          {{"import-deepspeed", "ds.json"}, "micro_batch"}};
}

}  // namespace

TEST_CASE("each documented form of each command's argument") {
  const Workspace work;
  const auto file = work.write(
      "a.toml", small_config({{"max_steps", "max_steps = 2\ngenerate_samples = 0"}, {"vocab_size", "vocab_size = 258"}},
                             "[checkpoint]\nevery_steps = 2\n[monitor.memory_log]\n"
                             "[monitor.trace]\nsteps = [1]\n"));
  work.write("ds.json", R"({"train_micro_batch_size_per_gpu": 4})");
  const auto trained = work.run({"run", file});
  REQUIRE(trained.code == 0);
  put_into_hub(work.folder() / "runs/small/model", work.folder() / "hf/hub");
  auto forms = of_models(file);
  for (auto& form : of_runs_and_files(file)) forms.push_back(form);
  for (const auto& [words, says] : forms) {
    const auto ran = work.run(words, {{"HF_HOME", (work.folder() / "hf").string()}});
    INFO(capstan::join(words, " ") << "\n" << ran.all());
    CHECK(ran.code == 0);
    CHECK_FALSE(ran.out.empty());
    CHECK_THAT(ran.out, Contains(says));
  }
}

}  // namespace forms_test
