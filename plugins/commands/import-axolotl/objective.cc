#include <capstan/base/text.h>

#include "parts.h"

namespace import_axolotl {

using namespace capstan;

namespace {

// The option of one loss; a key of another loss says nothing.
void take_number(Import& import, const std::string& ours, const std::string& path) {
  if (const auto number = import.number(path)) import.set(ours, *number, path);
}

void take_beta(Import& import) {
  for (const char* path : {"trl.beta", "rl_beta", "dpo_beta"}) {
    if (import.settings().find("objective.beta") == nullptr) take_number(import, "objective.beta", path);
  }
}

// dpo's own losses by name.
std::string loss_of(Import& import, const std::string& rl) {
  const auto named = import.texts("dpo_loss_type");
  if (rl != "dpo" || named.empty()) return rl == "dpo" ? "sigmoid" : rl;
  if (named.size() == 1 && (named.front() == "sigmoid" || named.front() == "ipo")) return named.front();
  import.fault("dpo_loss_type", cat("is ", join(named)), "use one of sigmoid and ipo, or write another rl");
  return "sigmoid";
}

// The model without adapters, where nothing else is trained.
void take_reference(Import& import) {
  const bool only_adapters = !trains_all(import) && !import.has("lora_modules_to_save");
  import.set("objective.reference", only_adapters ? "base" : "start", only_adapters ? "adapter" : "rl");
}

}  // namespace

void take_objective(Import& import) {
  const auto rl = import.text("rl");
  if (rl.empty()) return;
  if (rl == "kto")
    return import.fault("rl", "is kto, whose data are not translated",
                        "write [objective] plugin = \"kto\" and data.labels = true by hand: docs/preferences.md");
  if (rl != "dpo" && rl != "ipo" && rl != "orpo" && rl != "simpo")
    return import.fault("rl", cat("is ", rl, ", which Capstan does not offer"), "use dpo, ipo, orpo or simpo");
  import.set("objective.plugin", "dpo", "rl");
  const auto loss = loss_of(import, rl);
  import.set("objective.loss", loss, "rl");
  if (loss == "orpo") {
    take_number(import, "objective.lambda", "orpo_alpha");
    import.note("rl", "orpo: the chosen answer's likelihood is that of its own tokens, without the prompt's");
    return;
  }
  take_beta(import);
  if (loss == "simpo") take_number(import, "objective.gamma", "simpo_gamma");
  if (loss != "ipo") take_number(import, "objective.label_smoothing", "dpo_label_smoothing");
  if (loss != "simpo") take_reference(import);
}

}  // namespace import_axolotl
