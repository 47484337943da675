// Every experiment of configs/workshop runs, on CPU ranks and at tiny sizes. Its values are compared in tests/app.
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <algorithm>
#include <filesystem>

#include "end_to_end/program.h"
#include "end_to_end/results.h"

namespace workshop_test {

using namespace end_to_end;
using capstan::cat;

namespace {

std::vector<std::filesystem::path> files_of(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() / "configs/workshop" / folder)) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Two steps of the built-in example's questions, on the CPU (the workshop's fp16 needs a GPU).
std::vector<std::string> small(const std::filesystem::path& file, int ranks) {
  const auto data = source_dir() / "configs/data";
  return {"run",
          file.string(),
          "-n",
          std::to_string(ranks),
          "run.dir=runs",
          "run.device=cpu",
          "run.name=" + file.stem().string(),
          "train.precision=bf16",
          "data.tokenizer=byte",
          "data.max_length=128",
          cat("data.train=", (data / "mini_squad_train.json").string()),
          cat("data.eval=", (data / "mini_squad_eval.json").string()),
          "train.pad_to_multiple=8",
          "data.train_samples=32",
          "data.eval_samples=3"};
}

void check_runs(const Workspace& work, const std::vector<std::string>& arguments, const std::filesystem::path& file) {
  const auto ended = work.run(arguments);
  INFO(file << "\n" << ended.all());
  REQUIRE(ended.code == 0);
  const auto metrics = read_metrics(work.folder() / "runs" / file.stem());
  CHECK(!metrics.steps.empty());
  CHECK(!metrics.evaluations.empty());
}

// A finished run's model/, which the experiments of published models start from.
std::string model_of(const Workspace& work, const std::string& plugin,
                     std::vector<std::pair<std::string, std::string>> changes) {
  changes.insert(changes.end(), {{"plugin = \"gpt\"", "plugin = \"" + plugin + "\""},
                                 {"hidden_size", "hidden_size = 32"},
                                 {"num_heads", "num_heads = 8"},
                                 {"max_steps", "max_steps = 1"}});
  const auto file = work.write(plugin + ".toml", small_config(changes));
  const auto ended = work.run({"run", file, "run.name=" + plugin});
  INFO(ended.all());
  REQUIRE(ended.code == 0);
  return "model.path=" + (work.folder() / "runs" / plugin / "model").string();
}

}  // namespace

TEST_CASE("the workshop's FSDP and ZeRO experiments run", "[workshop]") {
  const Workspace work;
  const auto bloom = model_of(work, "bloom", {{"ff_dim", ""}});
  const std::vector<std::string> tiny{"model.hidden_size=16", "model.num_layers=1", "model.num_heads=2",
                                      "model.ff_dim=20", "model.vocab_size=300"};
  for (const std::string folder : {".", "fsdp", "zero"}) {
    for (const auto& file : files_of(folder)) {
      const auto name = file.stem().string();
      const bool custom = name == "custom_gpt" || (folder == "fsdp" && name.starts_with("weak_scaling"));
      auto arguments = small(file, folder == "." ? 1 : 2);
      if (custom) {
        arguments.insert(arguments.end(), tiny.begin(), tiny.end());
      } else {
        arguments.push_back(bloom);
      }
      arguments.emplace_back("train.epochs=1");
      if (name == "weak_scaling") arguments.emplace_back("data.samples_per_rank=16");
      check_runs(work, arguments, file);
      std::filesystem::remove_all(work.folder() / "runs" / name);
    }
  }
}

TEST_CASE("the workshop's NeMo experiments run", "[workshop]") {
  const Workspace work;
  const auto llama = model_of(work, "llama", {{"dropout", "num_kv_heads = 4"}});
  const auto mixtral = model_of(work, "mixtral", {{"dropout", "num_kv_heads = 4\nnum_experts = 8"}});
  for (const std::string folder : {"nemo/data_parallel", "nemo/model_parallel"}) {
    for (const auto& file : files_of(folder)) {
      const auto name = file.stem().string();
      const auto has = [&](const char* word) { return name.find(word) != std::string::npos; };
      const int ranks = has("tp8") || has("tp4_ep2") ? 8 : has("8b_tp2") ? 2 : 4;
      auto arguments = small(file, ranks);
      arguments.push_back(has("llama") ? llama : mixtral);
      arguments.insert(arguments.end(), {"train.max_steps=2", "optimizer.warmup_steps=1"});
      check_runs(work, arguments, file);
    }
  }
}

}  // namespace workshop_test
