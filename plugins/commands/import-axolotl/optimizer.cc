#include <capstan/base/text.h>

#include <map>

#include "parts.h"

namespace import_axolotl {

using namespace capstan;

namespace {

constexpr const char* fewer_bits = "its moments have 8 bits here, not fewer";
constexpr const char* more_bits = "its momentum has 32 bits here";
constexpr const char* not_paged =
    "nothing is paged: strategy.zero.offload_optimizer and strategy.fsdp.cpu_offload hold state in host memory";

struct Optimizer {
  const char* ours;
  const char* note;  ///< empty: none
};

const std::map<std::string, Optimizer>& optimizers() {
  static const std::map<std::string, Optimizer> all{{"adamw_torch", {"adamw", ""}},
                                                    {"adamw_torch_fused", {"adamw", ""}},
                                                    {"adamw_torch_xla", {"adamw", ""}},
                                                    {"adamw_apex_fused", {"adamw", ""}},
                                                    {"adamw_hf", {"adamw", ""}},
                                                    {"optimi_adamw", {"adamw", ""}},
                                                    {"paged_adamw", {"adamw", not_paged}},
                                                    {"paged_adamw_32bit", {"adamw", not_paged}},
                                                    {"adamw_bnb_8bit", {"adam8bit", ""}},
                                                    {"adamw_8bit", {"adam8bit", ""}},
                                                    {"adamw_torch_8bit", {"adam8bit", ""}},
                                                    {"ao_adamw_8bit", {"adam8bit", ""}},
                                                    {"paged_adamw_8bit", {"adam8bit", not_paged}},
                                                    {"adamw_torch_4bit", {"adam8bit", fewer_bits}},
                                                    {"ao_adamw_4bit", {"adam8bit", fewer_bits}},
                                                    {"ao_adamw_fp8", {"adam8bit", fewer_bits}},
                                                    {"lion", {"lion", ""}},
                                                    {"lion_32bit", {"lion", ""}},
                                                    {"paged_lion_32bit", {"lion", not_paged}},
                                                    {"lion_8bit", {"lion", more_bits}},
                                                    {"paged_lion_8bit", {"lion", more_bits}},
                                                    {"muon", {"muon", ""}}};
  return all;
}

// Empty where it is refused.
std::string take_name(Import& import) {
  if (!import.has("optimizer")) return "adamw";
  const auto name = import.text("optimizer");
  const auto found = optimizers().find(name);
  if (found == optimizers().end()) {
    import.fault("optimizer", cat("is ", name, ", which Capstan does not offer"),
                 "use adamw_torch, adamw_8bit, lion_32bit or muon, or an optimizer plugin of yours");
    return "";
  }
  import.set("optimizer.plugin", found->second.ours, "optimizer");
  if (*found->second.note != '\0') import.note("optimizer", cat("is ", name, ": ", found->second.note));
  return found->second.ours;
}

// Hugging Face gives Lion AdamW's decay rates.
void take_betas(Import& import, const std::string& name) {
  const auto first = import.number("adam_beta1"), second = import.number("adam_beta2");
  const auto option = name == "muon" ? "optimizer.adamw_betas" : "optimizer.betas";
  const std::vector<double> both{first.value_or(0.9), second.value_or(0.999)};
  if (first || second) return import.set(option, both, first ? "adam_beta1" : "adam_beta2");
  if (name == "lion") import.set_default(option, both, "Hugging Face's default of adam_beta1 and adam_beta2");
}

void take_epsilon(Import& import, const std::string& name) {
  const auto epsilon = import.number("adam_epsilon");
  if (!epsilon) return;
  if (name == "lion") return import.note("adam_epsilon", "is not taken over: Lion has none");
  import.set(name == "muon" ? "optimizer.adamw_eps" : "optimizer.eps", *epsilon, "adam_epsilon");
}

void take_groups(Import& import) {
  const auto ratio = import.number("loraplus_lr_ratio");
  if (!ratio || trains_all(import)) return;
  import.set("optimizer.groups.lora_plus.records", std::vector<std::string>{"*lora_B*"}, "loraplus_lr_ratio");
  import.set("optimizer.groups.lora_plus.lr_factor", *ratio, "loraplus_lr_ratio");
}

}  // namespace

void take_optimizer(Import& import) {
  if (!import.has("learning_rate") && import.has("base_model"))
    import.fault("learning_rate", "is not there", "write the learning rate, as axolotl requires it");
  const auto name = take_name(import);
  take_betas(import, name);
  take_epsilon(import, name);
  if (name == "muon" && !trains_all(import)) import.set("optimizer.adapters", true, "optimizer");
  import.set_default("optimizer.weight_decay", 0.0, "axolotl's default");
  take_groups(import);
}

}  // namespace import_axolotl
