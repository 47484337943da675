// What a model's options start from: presets, below a folder's config.json and the configuration.
#include "setup/presets.h"

#include <capstan/base/files.h>
#include <capstan/config/options.h>
#include <capstan_catch.h>

#include "checkpoint/scratch.h"
#include "hf/door.h"

namespace presets_test {

using namespace capstan;

namespace {

struct Layered {
  std::int64_t width = 1, depth = 2, heads = 3, length = 4;
  static void describe(config::OptionTable<Layered>& t) {
    t.add("width", &Layered::width).spelling("n_embd").doc("");
    t.add("depth", &Layered::depth).doc("");
    t.add("heads", &Layered::heads).doc("");
    t.add("length", &Layered::length).doc("");
  }
};

const config::Presets presets{
    {"small", {{"width", std::int64_t{10}}, {"depth", std::int64_t{20}}, {"heads", std::int64_t{30}}}}};

}  // namespace

TEST_CASE("default, preset, config.json, configuration: each layer wins over the one before") {
  const Scratch scratch;
  write_file(scratch.path() / "config.json", R"({"n_embd": 100, "depth": 200, "layers": {"x": 1}})");
  plugin::Registration plugin;
  plugin.schema = config::Options<Layered>::schema();
  config::Section section{"model", {}, {}};
  section.entries.push_back({"width", std::int64_t{1000}, {config::Origin::Layer::file, "a.toml", 7}});
  section = hf::door().with_model_file(section, {scratch.path().string(), "a.toml:5"}, plugin).section;
  section = setup::with_preset(section, {"small", "a.toml:6"}, presets, "tiny");
  Diagnostics diagnostics;
  const config::Options<Layered> sizes(section, diagnostics);
  diagnostics.throw_if_any();
  CHECK(sizes->width == 1000);
  CHECK(sizes.where(&Layered::width) == "a.toml:7");
  CHECK(sizes->depth == 200);
  CHECK(sizes.where(&Layered::depth) == (scratch.path() / "config.json").string());
  CHECK(sizes->heads == 30);
  CHECK(sizes.where(&Layered::heads) == "preset");
  CHECK(sizes->length == 4);
}

TEST_CASE("an unknown preset is said with the nearest one") {
  const auto fault = [](const std::string& name, const config::Presets& known) -> std::string {
    try {
      setup::with_preset({}, {name, "a.toml:6"}, known, "tiny");
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  CHECK(fault("smal", presets) ==
        "a.toml:6: model.preset: plugin 'tiny' has no preset 'smal'\n    fix: did you mean 'small'?");
  CHECK(fault("small", {}) ==
        "a.toml:6: model.preset: plugin 'tiny' has no preset 'small'\n    fix: remove it: this plugin has none");
}

TEST_CASE("a published model's id names its preset, however its words are joined") {
  const config::Presets presets{{"bloom-1b1", {}},   {"bloom-560m", {}},   {"gpt2", {}},      {"gpt2-medium", {}},
                                {"llama3.1-8b", {}}, {"mixtral-8x7b", {}}, {"llama2-7b", {}}, {"qwen3-30b-a3b", {}}};
  CHECK(setup::preset_of_id("bigscience/bloom-560m", presets) == "bloom-560m");
  CHECK(setup::preset_of_id("bigscience/bloom-560m@main", presets) == "bloom-560m");
  CHECK(setup::preset_of_id("/scratch/models/bloom_1b1/", presets) == "bloom-1b1");
  CHECK(setup::preset_of_id("meta-llama/Llama-3.1-8B", presets) == "llama3.1-8b");
  CHECK(setup::preset_of_id("meta-llama/Meta-Llama-3.1-8B-Instruct", presets) == "llama3.1-8b");
  CHECK(setup::preset_of_id("meta-llama/Llama-2-7b-hf", presets) == "llama2-7b");
  CHECK(setup::preset_of_id("mistralai/Mixtral-8x7B-v0.1", presets) == "mixtral-8x7b");
  CHECK(setup::preset_of_id("Qwen/Qwen3-30B-A3B", presets) == "qwen3-30b-a3b");
  CHECK(setup::preset_of_id("openai-community/gpt2-medium", presets) == "gpt2-medium");
}

TEST_CASE("what no preset is named like has none") {
  const config::Presets presets{{"bloom-1b1", {}}, {"gpt2", {}}};
  for (const auto* id : {"bigscience/bloom-1b15", "bloom-1b1/other", "gpt2000", "", "/", "somebody/model"}) {
    INFO(id);
    CHECK(setup::preset_of_id(id, presets).empty());
  }
}

}  // namespace presets_test
