// The fields of peft's LoraConfig (peft 0.21: tuners/lora/config.py, config.py), and what each is here.
#include <capstan/base/text.h>

#include "peft_config.h"

namespace lora {

using namespace capstan;
using config::FileKey;

namespace {

using Keys = std::vector<FileKey>;

constexpr const char* merge =
    ": let peft merge the adapter into its model (merge_and_unload) and start from that with model.path";

FileKey used(const char* name, const char* words) { return {name, FileKey::Use::used, words}; }
FileKey neutral(const char* name, const char* words) { return {name, FileKey::Use::neutral, words}; }
FileKey only(const char* name, std::vector<std::string> allowed, const std::string& what) {
  return {name, FileKey::Use::only, what + merge, std::move(allowed)};
}
FileKey refused(const char* name, const std::string& what) { return {name, FileKey::Use::refused, what + merge}; }

Keys adapters() {
  return {
      {"peft_type",
       FileKey::Use::only,
       cat("Capstan has the adapters of peft's LoraConfig, \"LORA\"", merge),
       {"\"LORA\""}},
      used("r", "absent: 8; it must be strategy.lora.rank"),
      used("lora_alpha", "absent: 8; it must be strategy.lora.alpha"),
      used("use_rslora", "absent: false; it must be strategy.lora.rank_stabilised"),
      used("target_modules", "the modules with adapters: names, a regular expression or \"all-linear\""),
      used("target_parameters", "parameters with adapters in place of their modules: experts' matrices, and their router's"),
      used("exclude_modules", "modules that get no adapter all the same: names or a regular expression"),
      used("layers_to_transform", "the layers whose modules get adapters; absent: all"),
      used("layers_pattern", "where a module's name has the number of its layer; absent: the first number"),
      used("modules_to_save", "modules whose own values the file has; strategy.lora.modules_to_save must name them"),
      used("ensure_weight_tying", "absent: false; whether a tied head is saved with its embedding"),
      {"bias",
       FileKey::Use::only,
       "the file's biases are used, and strategy.lora.bias must train the same ones",
       {"\"none\"", "\"all\"", "\"lora_only\""}},
      {"init_lora_weights",
       FileKey::Use::only,
       "peft takes the adapters' first values out of the base (pissa, olora, corda, loftq, lora_ga), or trains only "
       "one "
       "of the two matrices (mica): let peft convert the adapter (save_pretrained with "
       "path_initial_model_for_weight_conversion), or merge it into its model (merge_and_unload) and start from that "
       "with model.path",
       {"true", "false", "\"gaussian\"", "\"eva\"", "\"orthogonal\""}},
  };
}

Keys other_methods() {
  const std::vector<std::string> off{"false"}, none{"[]"}, empty{"{}"};
  return {
      only("rank_pattern", empty, "all adapters have one rank"),
      only("alpha_pattern", empty, "all adapters have one alpha"),
      only("use_dora", off, "Capstan has no weights whose size is trained apart from their direction (DoRA)"),
      only("use_qalora", off, "Capstan has no adapters with pooled inputs (QALoRA)"),
      only("use_bdlora", off, "Capstan has no block-diagonal adapters (BD-LoRA)"),
      only("lora_bias", off, "Capstan's adapters have no bias"),
      only("layer_replication", none, "each layer stands in the model once"),
      only("trainable_token_indices", {"[]", "{}"}, "an embedding is trained as a whole, not by its rows"),
      only("alora_invocation_tokens", none, "adapters act on every token, not only after some (aLoRA)"),
      refused("velora_config", "Capstan has no backward pass from compressed inputs (VeLoRA)"),
      refused("kasa_config", "Capstan's bases are not truncated (KaSA)"),
      refused("monteclora_config", "adapters are not sampled (MonteCLoRA)"),
      refused("arrow_config", "a run has one adapter, and none is chosen by token (Arrow)"),
      refused("megatron_config", "the adapter belongs to Megatron's own layers"),
      only("enable_lora", none, "the rows of one matrix have all an adapter or none has (peft before 0.3)"),
  };
}

Keys no_effect() {
  Keys keys{
      neutral("lora_dropout", "evaluations have no dropout, and training has strategy.lora.dropout"),
      neutral("fan_in_fan_out", "peft takes it from the layer's class, and A and B are stored alike"),
      neutral("megatron_core", "it is read with megatron_config"),
      neutral("qalora_group_size", "it is read with use_qalora"),
      neutral("runtime_config", "it is about where peft computes"),
      neutral("task_type", "the tensors' names say what they belong to"),
      neutral("inference_mode", "the run's configuration says what is trained"),
      neutral("base_model_name_or_path", "model.path names the base"),
      neutral("revision", "model.path names the base"),
      neutral("auto_mapping", "it names peft's classes"),
      neutral("peft_version", "it says who wrote the file"),
      neutral("merge_weights", "peft before 0.3 merged the adapter for evaluations, to the same sums"),
  };
  for (const char* name : {"loftq_config", "eva_config", "corda_config", "lora_ga_config"})
    keys.push_back(neutral(name, "it says how init_lora_weights drew values, which the file has"));
  return keys;
}

}  // namespace

config::FileKeys peft_keys() {
  config::FileKeys table{
      peft_config_file,
      "peft's save_pretrained writes it beside an adapter. A key that is not in this table is passed "
      "over if it is off (null, false, [] or {}) and refused otherwise.",
      {}};
  for (auto& part : {adapters(), other_methods(), no_effect()})
    table.keys.insert(table.keys.end(), part.begin(), part.end());
  return table;
}

}  // namespace lora
