// Text models inside of models that read images too, on ranks: what the text model learns by itself.
#include <ATen/ATen.h>
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/checkpoint/safetensors.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <string>
#include <utility>
#include <vector>

#include "support/model_folders.h"

namespace wrappers_test {

using namespace capstan;
using capstan::testing::train;  // capstan::train is a namespace, too

namespace {

namespace fs = std::filesystem;

struct Wrapper {
  std::string plugin;
  std::string options;  ///< of the text model, more than all have
  std::string family;
  std::string architecture;
  std::string prefix;  ///< of the text model's tensors
};

const std::vector<Wrapper> wrappers{
    {"llama", "model_type = \"mistral\"\n", "mistral3", "Mistral3ForConditionalGeneration", "language_model.model."},
    {"gemma3", "sliding_window = 5\nglobal_every = 2\ntie_word_embeddings = true\n", "gemma3",
     "Gemma3ForConditionalGeneration", "model.language_model."}};

// Writes the folder of a text model again inside of another model, beside a tensor of what reads images.
void put_inside(const Wrapper& wrapper, const fs::path& text, const fs::path& folder) {
  auto table = Json::parse(read_file(text / "config.json"));
  const bool tied = table.at("tie_word_embeddings").get<bool>();
  table.erase("architectures");
  const Json config{{"model_type", wrapper.family},
                    {"architectures", {wrapper.architecture}},
                    {"tie_word_embeddings", tied},
                    {"text_config", table}};
  fs::create_directories(folder);
  write_file(folder / "config.json", config.dump());
  const checkpoint::SafetensorsFile file(text / "model.safetensors");
  std::vector<checkpoint::NamedTensor> tensors{{"vision_tower.patches.weight", at::ones({3, 2})}};
  for (const auto& [name, info] : file.tensors()) {
    const auto value = at::empty(info.shape, at::TensorOptions(checkpoint::torch_dtype(info.dtype)));
    file.read(name, layout::Box::whole(info.shape), value);
    const bool is_head = name.starts_with("lm_head.");
    tensors.emplace_back(is_head ? "language_model." + name : wrapper.prefix + name.substr(6), value);
  }
  checkpoint::write_safetensors(folder / "model.safetensors", tensors);
}

testing::TrainResult run(const Wrapper& wrapper, const fs::path& folder, int world, const std::string& tables) {
  return train({.world = world,
                .config = cat("[model]\nplugin = \"", wrapper.plugin, "\"\npath = \"", folder.string(),
                              "\"\n[data]\ntokenizer = \"byte\"\n", tables),
                .steps = 4});
}

}  // namespace

TEST_CASE("float64: a text model inside of another learns on ranks what it learns by itself", "[matrix][train]") {
  const std::string tensor = "[strategy.tensor_parallel]\nsize = 2\n",
                    fsdp = "[strategy.fsdp]\nmode = \"full_shard\"\n";
  for (const auto& wrapper : wrappers) {
    INFO(wrapper.family);
    const test::Folder folders;
    const auto text = folders / "text", inside = folders / "inside";
    testing::write_model(cat("[model]\nplugin = \"", wrapper.plugin,
                             "\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\nnum_kv_heads = 2\n"
                             "head_dim = 6\nff_dim = 22\nseq_length = 24\ninit_std = 0.2\n",
                             wrapper.options),
                         11, text);
    put_inside(wrapper, text, inside);
    for (const std::string adapters :
         {"", "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n"}) {
      const auto alone = run(wrapper, text, 1, adapters);
      CHECK(alone.losses.back() < alone.losses.front());
      CHECK(testing::differences(run(wrapper, inside, 1, adapters), alone, 0) == "");
      for (const auto& layout : {fsdp, tensor, tensor + "sequence_parallel = true\n"}) {
        INFO(adapters << layout);
        // Sums in float64 in another order, which AdamW amplifies: what the project promises.
        CHECK(testing::differences(run(wrapper, inside, 2, adapters + layout), alone, 1e-10) == "");
      }
    }
  }
}

}  // namespace wrappers_test
