#include <ATen/ATen.h>
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>
#include <capstan/checkpoint/safetensors.h>
#include <capstan_catch.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <utility>
#include <vector>

#include "plugins/strategies/lora/jobs.h"

namespace peft_source_test {

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

namespace {

// The folder of an adapter that a run of this configuration would write, to be spoilt.
struct Folder {
  explicit Folder(std::string job) : config(std::move(job)) {
    write_drawn_adapter(config, path());
    tensors = read_all(path() / "adapter_model.safetensors");
    json = Json::parse(read_file(path() / "adapter_config.json"));
  }
  fs::path path() const { return scratch.path() / "adapter"; }
  // What a run of this configuration that starts from the folder says, which is the same for an evaluation.
  std::string refused(const std::string& by) const {
    checkpoint::write_safetensors(path() / "adapter_model.safetensors", tensors);
    std::ofstream(path() / "adapter_config.json") << json;
    const auto start = by + "adapter = \"" + path().string() + "\"\n";
    auto trained = refusal(start);
    // Each is of a file of its own.
    const auto words = [](const std::string& text) { return std::regex_replace(text, std::regex("[^ ]*planned"), ""); };
    CHECK(words(refusal(start, setup::Purpose::evaluate)) == words(trained));
    return trained;
  }
  std::string refused() const { return refused(config); }
  checkpoint::NamedTensor& tensor(const std::string& end) {
    return *std::find_if(tensors.begin(), tensors.end(), [&](const auto& one) { return one.name.ends_with(end); });
  }

  Scratch scratch;
  std::string config;
  std::vector<checkpoint::NamedTensor> tensors;
  Json json;
};

}  // namespace

TEST_CASE("what peft's adapters may be and ours are not is refused at the option, by its name") {
  Folder folder(llama + lora_table("targets = [\"q_proj\"]\n"));
  CHECK(folder.refused() == "");
  folder.json["init_lora_weights"] = "pissa";
  folder.json["use_dora"] = true;
  CHECK_THAT(folder.refused(), Contains(".toml:") && Contains("strategy.lora.adapter: ") &&
                                   Contains("adapter_config.json: init_lora_weights = \"pissa\" is not supported") &&
                                   Contains("use_dora = true is not supported"));
}

TEST_CASE("every tensor of an adapter is used, and none is missing") {
  const auto saved = llama + lora_table("targets = [\"q_proj\"]\nmodules_to_save = [\"lm_head\"]\n");
  const Folder right(saved);
  CHECK(right.refused() == "");
  CHECK_THAT(right.refused(llama + lora_table("targets = [\"q_proj\"]\n")),
             Contains("tensors that no adapter of this run uses: base_model.model.lm_head.weight"));

  const std::string layer = "base_model.model.model.layers.1.self_attn.q_proj.";
  const std::pair<std::string, std::string> unused[] = {
      {"base_model.model.model.layers.2.self_attn.q_proj.lora_A.weight", "layers.2.self_attn.q_proj.lora_A.weight"},
      {"base_model.model.model.embed_tokens.lora_embedding_A", "(an embedding's adapter, which Capstan does not have)"},
      {layer + "lora_magnitude_vector", "(the sizes of weights (DoRA), which Capstan does not have)"},
      {layer + "lora_B.bias", "(an adapter's bias, which Capstan does not have)"},
      {layer + "lora_velora_embed", layer + "lora_velora_embed"}};
  for (const auto& [name, words] : unused) {
    Folder folder(saved);
    folder.tensors.push_back({name, at::zeros({3, 18})});
    CHECK_THAT(folder.refused(), Contains("tensors that no adapter of this run uses: ") && Contains(words));
  }

  Folder without(saved);
  std::erase_if(without.tensors, [](const auto& one) { return one.name.ends_with("lm_head.weight"); });
  CHECK_THAT(without.refused(), Contains("it has no tensor base_model.model.lm_head.weight, which this run trains"));
  CHECK_THAT(without.refused(llama + lora_table("targets = [\"q_proj\"]\n")),
             Contains("base_model.model.lm_head.weight, which modules_to_save of its adapter_config.json means"));
  Folder other_rank(saved);
  auto& a = other_rank.tensor("layers.1.self_attn.q_proj.lora_A.weight").tensor;
  a = at::zeros({2, 18});
  CHECK_THAT(other_rank.refused(), Contains("q_proj.lora_A.weight is [2, 18], this run needs [3, 18]"));
}

TEST_CASE("adapters that peft would pass over are refused") {
  Folder folder(llama + lora_table("targets = [\"q_proj\"]\n"));
  folder.json["layers_to_transform"] = {0};
  CHECK_THAT(folder.refused(),
             Contains("leave out model.layers.1.self_attn.q_proj, and adapter_model.safetensors has adapters of them"));
  folder.json["layers_to_transform"] = {0, 1};
  CHECK(folder.refused() == "");
}

TEST_CASE("the embedding and a head that is tied to it are saved alike, or refused") {
  const auto tied = gpt + lora_table("targets = [\"c_attn\"]\nmodules_to_save = [\"wte\"]\n");
  const std::string parted = "peft parts the embedding and the head, which are one matrix in this model";
  const Folder right(tied);
  CHECK(right.json.at("ensure_weight_tying") == true);
  CHECK(right.json.at("modules_to_save") == Json::array({"transformer.wte", "lm_head"}));
  CHECK(right.refused() == "");

  Folder unlike(tied);
  unlike.tensor("lm_head.weight").tensor = unlike.tensor("lm_head.weight").tensor.add(1);
  CHECK_THAT(unlike.refused(), Contains("wte.weight is not base_model.model.lm_head.weight: " + parted));
  // As peft saves it without ensure_weight_tying.
  Folder alone(tied);
  std::erase_if(alone.tensors, [](const auto& one) { return one.name.ends_with("lm_head.weight"); });
  alone.json["modules_to_save"] = {"wte"};
  alone.json["ensure_weight_tying"] = false;
  CHECK_THAT(alone.refused(), Contains("base_model.model.transformer.wte.weight is saved alone: " + parted));
  Folder head(tied);
  std::erase_if(head.tensors, [](const auto& one) { return one.name.ends_with("wte.weight"); });
  head.json["modules_to_save"] = {"lm_head"};
  CHECK_THAT(head.refused(gpt + lora_table("targets = [\"c_attn\"]\n")),
             Contains("base_model.model.lm_head.weight is saved alone: " + parted));
  // Both are there, and the run trains neither.
  CHECK_THAT(right.refused(gpt + lora_table("targets = [\"c_attn\"]\n")),
             Contains("tensors that no adapter of this run uses: base_model.model.transformer.wte.weight"));
}

}  // namespace peft_source_test
