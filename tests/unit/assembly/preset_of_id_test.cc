// Which preset stands in for a model whose files are not there: by the last part of its id, word by word.
#include <capstan_catch.h>

#include "assembly/model_file.h"

using capstan::assembly::preset_of_id;
using capstan::config::Presets;

TEST_CASE("a published model's id names its preset, however its words are joined") {
  const Presets presets{{"bloom-1b1", {}},   {"bloom-560m", {}},   {"gpt2", {}},      {"gpt2-medium", {}},
                        {"llama3.1-8b", {}}, {"mixtral-8x7b", {}}, {"llama2-7b", {}}, {"qwen3-30b-a3b", {}}};
  CHECK(preset_of_id("bigscience/bloom-560m", presets) == "bloom-560m");
  CHECK(preset_of_id("bigscience/bloom-560m@main", presets) == "bloom-560m");
  CHECK(preset_of_id("/scratch/models/bloom_1b1/", presets) == "bloom-1b1");
  CHECK(preset_of_id("meta-llama/Llama-3.1-8B", presets) == "llama3.1-8b");
  CHECK(preset_of_id("meta-llama/Meta-Llama-3.1-8B-Instruct", presets) == "llama3.1-8b");
  CHECK(preset_of_id("meta-llama/Llama-2-7b-hf", presets) == "llama2-7b");
  CHECK(preset_of_id("mistralai/Mixtral-8x7B-v0.1", presets) == "mixtral-8x7b");
  CHECK(preset_of_id("Qwen/Qwen3-30B-A3B", presets) == "qwen3-30b-a3b");
  CHECK(preset_of_id("openai-community/gpt2-medium", presets) == "gpt2-medium");
}

TEST_CASE("what no preset is named like has none") {
  const Presets presets{{"bloom-1b1", {}}, {"gpt2", {}}};
  for (const auto* id : {"bigscience/bloom-1b15", "bloom-1b1/other", "gpt2000", "", "/", "somebody/model"}) {
    INFO(id);
    CHECK(preset_of_id(id, presets).empty());
  }
}
