#include <capstan/base/text.h>

#include <algorithm>
#include <filesystem>

#include "parts.h"

namespace import_axolotl {

using namespace capstan;

namespace {

bool is_expression(const std::string& name) { return name.find_first_of("\\()[]*+?^$|") != std::string::npos; }

// Empty where the user must choose.
std::vector<std::string> targets_of(Import& import) {
  auto names = import.texts("lora_target_modules");
  if (import.is_true("lora_target_linear") || names == std::vector<std::string>{"all-linear"}) return {"all-linear"};
  if (std::any_of(names.begin(), names.end(), is_expression)) return {};
  for (const auto& matrix : import.texts("lora_target_parameters")) {
    if (matrix.find("experts") == std::string::npos) {
      import.fault("lora_target_parameters", cat("names ", matrix), "only experts' matrices are known by such names");
    } else if (std::find(names.begin(), names.end(), "experts") == names.end()) {
      names.emplace_back("experts");
    }
  }
  return names;
}

void take_targets(Import& import) {
  const auto targets = targets_of(import);
  const bool all = import.is_true("lora_target_linear");
  const std::string path = all                                 ? "lora_target_linear"
                           : import.has("lora_target_modules") ? "lora_target_modules"
                                                               : "lora_target_parameters";
  if (targets.empty()) {
    return import.choose("strategy.lora.targets", R"(["q_proj", "v_proj"])",
                         "modules by their names; here they are no expressions, and have no default of each family",
                         import.has(path) ? path : "adapter");
  }
  import.set("strategy.lora.targets", targets, path);
  if (all && import.has("lora_target_modules"))
    import.note("lora_target_modules", "is not taken over: lora_target_linear means all of them");
}

void take_numbers(Import& import) {
  if (const auto rank = import.number("lora_r"))
    import.set("strategy.lora.rank", static_cast<std::int64_t>(*rank), "lora_r");
  if (const auto alpha = import.number("lora_alpha")) import.set("strategy.lora.alpha", *alpha, "lora_alpha");
  if (const auto dropout = import.number("lora_dropout")) import.set("strategy.lora.dropout", *dropout, "lora_dropout");
  if (import.is_true("peft_use_rslora")) import.set("strategy.lora.rank_stabilised", true, "peft_use_rslora");
  const auto whole = import.texts("lora_modules_to_save");
  if (!whole.empty()) import.set("strategy.lora.modules_to_save", whole, "lora_modules_to_save");
  const auto start = import.text("lora_model_dir");
  if (!start.empty()) import.set("strategy.lora.adapter", import.local(start), "lora_model_dir");
  const auto* first = import.find("peft_init_lora_weights");
  if (first != nullptr && *first != true) {
    import.fault("peft_init_lora_weights", cat("is ", first->dump(), ", which Capstan does not offer"),
                 "remove it for PEFT's default, which is strategy.lora.init = \"kaiming\"");
  }
}

void take_bits(Import& import) {
  const bool is_named = import.text("adapter") == "qlora";
  if (is_named || import.is_true("load_in_4bit")) {
    import.set("strategy.nf4.targets", std::vector<std::string>{"all-linear"},
               import.is_true("load_in_4bit") ? "load_in_4bit" : "adapter");
    const std::string config = "bnb_config_kwargs.", twice = config + "bnb_4bit_use_double_quant",
                      type = config + "bnb_4bit_quant_type";
    if (import.is_false(twice))
      import.fault(twice, "is false, which Capstan does not offer", "remove it: NF4's scales have 8 bits");
    if (import.has(type) && import.text(type) != "nf4")
      import.fault(type, cat("is ", import.text(type), ", which Capstan does not offer"), "write nf4, or remove it");
  }
  if (import.is_true("load_in_8bit")) {
    import.choose("strategy.fp8.store", "\"fp8\"",
                  "keep the frozen model in 8-bit floats, multiplied in 8 bits; without this table it has 16 bits. "
                  "bitsandbytes' 8-bit integers have no counterpart",
                  "load_in_8bit");
  }
}

}  // namespace

bool trains_all(const Import& import) { return import.text("adapter").empty(); }

void take_adapter(Import& import) {
  const auto adapter = import.text("adapter");
  if (adapter.empty()) {
    for (const char* path : {"load_in_4bit", "load_in_8bit"}) {
      if (import.is_true(path))
        import.fault(path, "keeps all trained weights in few bits", "add adapter: qlora, or remove it");
    }
    return;
  }
  if (adapter != "lora" && adapter != "qlora")
    return import.fault("adapter", cat("is ", adapter, ", which Capstan does not offer"), "use lora or qlora");
  take_numbers(import);
  take_targets(import);
  take_bits(import);
}

}  // namespace import_axolotl
