#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include "parts.h"

namespace import_axolotl {

using namespace capstan;

namespace {

// A folder that is there, or a hub id with the revision that is asked for.
std::string model_name(const Import& import) {
  const auto name = import.text("base_model");
  if (is_there(name)) return import.local(name);
  auto revision = import.text("revision_of_model");
  if (revision.empty()) revision = import.text("model_revision");
  return revision.empty() ? name : cat(name, "@", revision);
}

void take_special_tokens(Import& import) {
  const auto* tokens = import.find("special_tokens");
  if (tokens == nullptr || !tokens->is_object()) return;
  for (const auto& [name, token] : tokens->items()) {
    const auto path = "special_tokens." + name;
    if (token.is_null() || name == "pad_token") continue;
    if (name == "additional_special_tokens") {
      import.fault(path, "has no counterpart in Capstan",
                   "the vocabulary stays that of the model's folder: save a tokenizer with them, and name that");
    } else {
      import.note(path, cat("is ", token.dump(),
                            ": Capstan takes the tokenizer's own; if that is another one, save a "
                            "tokenizer_config.json that says so, and name its folder as "
                            "data.tokenizer"));
    }
  }
}

}  // namespace

void take_model(Import& import) {
  if (!import.has("base_model"))
    return import.fault("base_model", "is not there", "give an axolotl configuration, which names a model");
  import.set("model.path", model_name(import), "base_model");
  const auto tokenizer = import.text("tokenizer_config");
  if (!tokenizer.empty() && tokenizer != import.text("base_model"))
    import.set("data.tokenizer", is_there(tokenizer) ? import.local(tokenizer) : tokenizer, "tokenizer_config");
  for (const char* path : {"model_config.output_router_logits", "overrides_of_model_config.output_router_logits"}) {
    if (import.is_true(path)) import.set("model.router_aux_loss", true, path);
  }
  for (const char* path : {"model_type", "type_of_model"}) {
    if (import.text(path).find("Classification") != std::string::npos) {
      import.fault(path, cat("is ", import.text(path)),
                   "a model has no head that classifies: write another, or remove it");
    }
  }
  take_special_tokens(import);
}

}  // namespace import_axolotl
