#include "hf/layer_config.h"

#include <capstan/base/json.h>

#include <string>

namespace capstan::hf {
namespace {

// What each block of the kind has, where no other has anything of its own; null: blocks differ otherwise.
Json of_global_blocks(const Json& table, const Json& types) {
  Json common;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const auto own = table.value(std::to_string(i), Json());
    const bool is_global = types[i] == Json("full_attention");
    if (is_global == own.is_null()) return {};
    if (is_global && !common.is_null() && common != own) return {};
    if (is_global) common = own;
  }
  return common;
}

}  // namespace

void settle_layers(Json& json) {
  const auto table = json.value("per_layer_config", Json()), types = json.value("layer_types", Json());
  if (!table.is_object() || !types.is_array()) return;
  const auto common = of_global_blocks(table, types);
  if (!common.is_object()) return;
  const bool has_own_keys = json.value("attention_k_eq_v", Json()) == Json(true);
  for (const auto& [key, value] : common.items()) {
    if (key != "head_dim" && !(key == "num_key_value_heads" && has_own_keys)) return;
  }
  if (!common.contains("head_dim")) {
    if (!json.contains("head_dim")) return;
    json["global_head_dim"] = json["head_dim"];
  }
  for (const auto& [key, value] : common.items())
    json[key == "head_dim" ? "global_head_dim" : "num_global_key_value_heads"] = value;
  json.erase("per_layer_config");
}

}  // namespace capstan::hf
