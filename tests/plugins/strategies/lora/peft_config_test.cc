#include "plugins/strategies/lora/peft_config.h"

#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/scratch.h"

namespace peft_config_test {

using namespace capstan;
using lora::PeftConfig;

namespace {

struct Read {
  PeftConfig config;
  std::vector<Diagnostic> faults;
};

// What is made of a file that has these keys besides those that peft always needs.
Read read(const std::string& more, const std::string& always = R"("peft_type": "LORA", "target_modules": ["q_proj"])") {
  const Scratch scratch;
  const auto file = scratch / lora::peft_config_file;
  std::ofstream(file) << "{" << always << (always.empty() || more.empty() ? "" : ", ") << more << "}";
  Diagnostics faults;
  auto config = PeftConfig::read(file, faults);
  return {std::move(config), faults.list()};
}

// Whether the modules of two layers get adapters, as bits: q and v of the layer 0, then those of the layer 11.
std::string adapted(const std::string& selection) {
  const auto [config, faults] = read(selection, R"("peft_type": "LORA")");
  CHECK(faults.empty());
  std::string bits;
  for (const char* layer : {"0", "11"}) {
    for (const char* module : {"q_proj", "v_proj"})
      bits += config.adapts(cat("model.layers.", layer, ".self_attn.", module)) ? '1' : '0';
  }
  return bits;
}

}  // namespace

TEST_CASE("what changes peft's sums and not ours is refused by its name, with what to do") {
  const std::pair<const char*, const char*> changes[] = {
      {"init_lora_weights", "\"pissa\""},
      {"init_lora_weights", "\"pissa_niter_16\""},
      {"init_lora_weights", "\"olora\""},
      {"init_lora_weights", "\"corda\""},
      {"init_lora_weights", "\"loftq\""},
      {"init_lora_weights", "\"lora_ga\""},
      {"init_lora_weights", "\"mica\""},
      {"init_lora_weights", "\"of a later version\""},
      {"rank_pattern", R"({"q_proj":2})"},
      {"alpha_pattern", R"({"layers.0":32})"},
      {"use_dora", "true"},
      {"use_qalora", "true"},
      {"use_bdlora", R"({"nblocks":2})"},
      {"lora_bias", "true"},
      {"layer_replication", "[[0,2]]"},
      {"trainable_token_indices", "[3]"},
      {"trainable_token_indices", R"({"embed_tokens":[3]})"},
      {"alora_invocation_tokens", "[7,8]"},
      {"velora_config", R"({"num_groups":4})"},
      {"kasa_config", R"({"beta":0.1})"},
      {"monteclora_config", R"({"num_samples":8})"},
      {"arrow_config", R"({"top_k":3})"},
      {"megatron_config", R"({"tensor_model_parallel_size":2})"},
      {"enable_lora", "[true,false,true]"},
  };
  for (const auto& [key, value] : changes) {
    const auto faults = read(cat("\"", key, "\": ", value)).faults;
    INFO(key << " " << value);
    REQUIRE(faults.size() == 1);
    CHECK(faults[0].what == cat(key, " = ", value, " is not supported"));
    CHECK_THAT(faults[0].where, Contains("adapter_config.json"));
    CHECK_THAT(faults[0].fix, Contains("merge_and_unload") && Contains("model.path"));
  }
  const auto later = read(R"("use_fancy": true, "fancy_config": {"x": 1})").faults;
  REQUIRE(later.size() == 2);
  CHECK_THAT(later[0].what, Contains("fancy_config = {\"x\":1} is a key that Capstan does not know"));
  CHECK_THAT(later[1].what, Contains("use_fancy = true is a key that Capstan does not know"));
  CHECK_THAT(read("", R"("peft_type": "LOHA", "target_modules": ["q_proj"])").faults.at(0).what,
             Contains("peft_type = \"LOHA\" is not supported"));
}

TEST_CASE("what changes nothing, or is off, is no fault") {
  const auto faults =
      read(R"("init_lora_weights": "gaussian", "use_dora": false, "use_bdlora": null, "lora_bias": false,
      "rank_pattern": {}, "alpha_pattern": {}, "layer_replication": null, "target_parameters": [], "fancy_config": null,
      "use_fancy": false, "fancy_list": [], "loftq_config": {"loftq_bits": 4}, "eva_config": {"rho": 1},
      "corda_config": {}, "lora_ga_config": {}, "megatron_core": "megatron.core", "qalora_group_size": 16,
      "fan_in_fan_out": true, "lora_dropout": 0.3, "task_type": "FEATURE_EXTRACTION", "inference_mode": false,
      "runtime_config": {"ephemeral_gpu_offload": true}, "revision": "main", "auto_mapping": {"base_model_class": "X"},
      "base_model_name_or_path": "a/b", "peft_version": "0.21.0", "merge_weights": false, "bias": "lora_only",
      "ensure_weight_tying": true)")
          .faults;
  CHECK(faults.empty());
}

TEST_CASE("absent keys have peft's defaults") {
  const auto config = read("").config;
  CHECK(config.rank == 8);
  CHECK(config.alpha == 8);
  CHECK_FALSE(config.rank_stabilised);
  CHECK(config.modules_to_save.empty());
  CHECK_THAT(read("", R"("peft_type": "LORA")").faults.at(0).what, Contains("it has no target_modules"));
  CHECK_THAT(read("", R"("target_modules": ["q_proj"])").faults.at(0).what, Contains("it has no peft_type"));
}

TEST_CASE("a value of another kind is a fault with its key") {
  const std::pair<const char*, const char*> kinds[] = {{"r", "\"8\""},
                                                       {"lora_alpha", "true"},
                                                       {"use_rslora", "1"},
                                                       {"ensure_weight_tying", "\"yes\""},
                                                       {"exclude_modules", "3"},
                                                       {"bias", "\"some\""},
                                                       {"modules_to_save", "[1]"},
                                                       {"modules_to_save", "{\"a\":1}"},
                                                       {"modules_to_save", "\"norm\""},
                                                       {"layers_pattern", "[2]"},
                                                       {"layers_to_transform", "[\"0\"]"},
                                                       {"layers_to_transform", "0.5"}};
  for (const auto& [key, value] : kinds) {
    INFO(key << " " << value);
    const auto faults = read(cat("\"", key, "\": ", value)).faults;
    REQUIRE(faults.size() == 1);
    CHECK_THAT(faults[0].what, Contains(key) && Contains(value));
  }
  for (const char* targets : {"3", "[3]"}) {
    CHECK_THAT(read(cat("\"target_modules\": ", targets), R"("peft_type": "LORA")").faults.at(0).what,
               Contains(cat("its target_modules is ", targets, ", expected a text or a list of texts")));
  }
  CHECK_THAT(read(R"("target_modules": "(?<=a)q_proj")", R"("peft_type": "LORA")").faults.at(0).what,
             Contains("a regular expression that Capstan cannot read"));
}

TEST_CASE("modules are selected as peft selects them") {
  CHECK(adapted(R"("target_modules": ["q_proj"])") == "1010");
  CHECK(adapted(R"("target_modules": ["proj"])") == "0000");
  CHECK(adapted(R"("target_modules": "all-linear")") == "1111");
  CHECK(adapted(R"("target_modules": ".*\\.0\\..*(q|v)_proj")") == "1100");
  CHECK(adapted(R"("target_modules": "q_proj")") == "0000");  // an expression is of the whole name
  CHECK(adapted(R"("target_modules": ["q_proj", "v_proj"], "exclude_modules": ["v_proj"])") == "1010");
  CHECK(adapted(R"("target_modules": ["q_proj", "v_proj"], "exclude_modules": "model\\.layers\\.11.*")") == "1100");
  CHECK(adapted(R"("target_modules": ["q_proj"], "modules_to_save": ["layers.11.self_attn"])") == "1000");
  CHECK(adapted(R"("target_modules": ["q_proj"], "layers_to_transform": 11)") == "0010");
  CHECK(adapted(R"("target_modules": ["q_proj"], "layers_to_transform": [0, 1])") == "1000");
  CHECK(adapted(R"("target_modules": ["q_proj"], "layers_to_transform": [])") == "1010");
  CHECK(adapted(R"("target_modules": ["q_proj"], "layers_to_transform": [0], "layers_pattern": "layers")") == "1000");
  CHECK(adapted(R"("target_modules": ["q_proj"], "layers_to_transform": [0], "layers_pattern": ["h"])") == "0000");
  // A whole name is taken whatever its layer.
  CHECK(adapted(R"("target_modules": ["model.layers.11.self_attn.q_proj"], "layers_to_transform": [0])") == "0010");
  const auto saving = read(R"("modules_to_save": ["norm", "lm_head"])").config;
  CHECK(saving.saves("model.norm"));
  CHECK(saving.saves("model.layers.0.input_layernorm"));
  CHECK_FALSE(saving.saves("model.embed_tokens"));
}

TEST_CASE("the table has each key once, with words") {
  std::set<std::string> names;
  for (const auto& key : lora::peft_keys().keys) {
    INFO(key.name);
    CHECK(names.insert(key.name).second);
    CHECK_FALSE(key.words.empty());
    CHECK(key.allowed.empty() == (key.use != config::FileKey::Use::only));
  }
}

}  // namespace peft_config_test
