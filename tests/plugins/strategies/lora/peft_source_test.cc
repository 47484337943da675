#include <ATen/ATen.h>
#include <capstan/base/text.h>
#include <capstan/checkpoint/safetensors.h>
#include <capstan_catch.h>

#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "plugins/strategies/lora/jobs.h"

using namespace capstan;
using namespace lora_test;

namespace {

namespace fs = std::filesystem;

std::vector<checkpoint::NamedTensor> read_all(const fs::path& path) {
  const checkpoint::SafetensorsFile file(path);
  std::vector<checkpoint::NamedTensor> tensors;
  for (const auto& [name, info] : file.tensors()) {
    tensors.push_back({name, at::empty(info.shape, at::TensorOptions(checkpoint::torch_dtype(info.dtype)))});
    file.read(name, layout::Box::whole(info.shape), tensors.back().tensor);
  }
  return tensors;
}

}  // namespace

TEST_CASE("an adapter to start from is judged before the run, at the option that names it") {
  const Scratch scratch;
  const auto config = mixtral + lora_table("targets = [\"experts\"]\nalpha = 6\n");
  const auto start = [&](const fs::path& folder) {
    return refusal(config + "adapter = \"" + folder.string() + "\"\n");
  };
  CHECK_THAT(start(scratch.path() / "nowhere"),
             Contains(".toml:") && Contains("strategy.lora.adapter: ") && Contains("there is no such folder") &&
                 Contains("fix: name a folder with adapter_config.json and adapter_model.safetensors"));
  fs::create_directories(scratch.path() / "model");
  std::ofstream(scratch.path() / "model/adapter_config.json") << "{}";
  CHECK_THAT(start(scratch.path() / "model"), Contains("it has no adapter_model.safetensors"));

  const auto right = scratch.path() / "right";
  write_drawn_adapter(config, right);
  CHECK(start(right) == "");
  CHECK_THAT(refusal(config + "rank_stabilised = true\nadapter = \"" + right.string() + "\"\n"),
             Contains("its use_rslora is false, strategy.lora.rank_stabilised is true") &&
                 Contains("fix: set strategy.lora.rank_stabilised = false"));

  const auto unshared = scratch.path() / "unshared";
  fs::create_directories(unshared);
  fs::copy_file(right / "adapter_config.json", unshared / "adapter_config.json");
  auto tensors = read_all(right / "adapter_model.safetensors");
  for (auto& [name, value] : tensors) {
    if (name.ends_with("w3.lora_A.weight")) value.add_(1);
  }
  checkpoint::write_safetensors(unshared / "adapter_model.safetensors", tensors);
  CHECK_THAT(start(unshared), Contains("w3.lora_A.weight differs from the A of the modules that share") &&
                                  Contains("each expert's w1 and w3 have an A of their own there") &&
                                  Contains("such an adapter cannot be loaded: let peft merge it"));

  for (auto& [name, value] : tensors) value = value.to(at::kLong);
  checkpoint::write_safetensors(unshared / "adapter_model.safetensors", tensors);
  CHECK_THAT(start(unshared), Contains(" is of Long, and weights are floating-point numbers"));
}

TEST_CASE("what peft's adapters may be and ours are not is refused by its name") {
  const Scratch scratch;
  std::ofstream(scratch.path() / "adapter_model.safetensors") << "never read";
  const auto refusal_of = [&](const std::string& json) {
    std::ofstream(scratch.path() / "adapter_config.json") << json;
    return refusal(llama + lora_table("adapter = \"" + scratch.path().string() + "\"\n"));
  };
  const std::vector<std::pair<std::string, std::string>> features{{"alpha_pattern", R"({"q_proj":32})"},
                                                                  {"rank_pattern", R"({"q_proj":2})"},
                                                                  {"use_dora", "true"},
                                                                  {"lora_bias", "true"},
                                                                  {"layer_replication", "[[0,2]]"},
                                                                  {"peft_type", "\"LOHA\""},
                                                                  {"target_modules", "3"},
                                                                  {"target_modules", "[3]"}};
  for (const auto& [key, value] : features) {
    CHECK_THAT(refusal_of(cat(R"({"r": 3, "lora_alpha": 3, ")", key, "\": ", value, "}")),
               Contains(cat("adapter_config.json: its ", key, " is ", value)) && Contains("merge_and_unload"));
  }
  // What peft writes where they are off: the fault is another.
  CHECK_THAT(refusal_of(R"({"r": 3, "lora_alpha": 3, "peft_type": "LORA", "alpha_pattern": {}, "rank_pattern": {},
                           "use_dora": false, "lora_bias": false, "layer_replication": null})"),
             Contains("adapter_model.safetensors") && !Contains("Capstan does not know"));
}
