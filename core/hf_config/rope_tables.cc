#include "hf/rope_tables.h"

#include <capstan/base/json.h>
#include <capstan/base/text.h>

#include "hf/json_keys.h"

namespace capstan::hf {
namespace {

constexpr const char* original = "original_max_position_embeddings";

bool has(const Json& json, const std::string& key) { return json.contains(key) && !json[key].is_null(); }

bool is_table(const Json& json, const std::string& name) {
  const auto* table = find_key(json, name);
  return table && table->is_object() && !table->empty();
}

// transformers 5's table; where each kind of block has one, that of blocks whose positions may be scaled.
std::string newer_table(const Json& json) {
  const std::string each = "rope_parameters.full_attention";
  return is_table(json, each) ? each : "rope_parameters";
}

std::string type_of(const Json& table) {
  for (const char* key : {"rope_type", "type"}) {
    if (has(table, key) && table[key].is_string()) return table[key].get<std::string>();
  }
  return "default";
}

// Old Phi-3 folders have longrope's first name.
void settle_type(Json& json, const std::string& name) {
  if (!is_table(json, name)) return;
  for (const char* key : {"rope_type", "type"}) {
    const auto whole = cat(name, ".", key);
    const auto* found = find_key(json, whole);
    if (found && *found == "su") put_key(json, whole, "longrope");
  }
}

// The table with one spelling of the type, without nulls, and with the theta that stands next to it.
Json plain(const Json& table, const Json& whole) {
  Json out{{"rope_type", type_of(table)}};
  for (const auto& [key, value] : table.items()) {
    if (key != "type" && !value.is_null()) out[key] = value;
  }
  if (!out.contains("rope_theta") && has(whole, "rope_theta")) out["rope_theta"] = whole["rope_theta"];
  return out;
}

void require_numbers(const Json& table, const std::string& name, const RopeReader& reader, const std::string& file,
                     Diagnostics& faults) {
  for (const std::string key : {"low_freq_factor", "high_freq_factor"}) {
    const auto whole = cat(name, ".", key);
    if (has(table, key) || reader.is_set(whole)) continue;
    faults.add(file, cat(name, " is of type llama3, which requires ", key),
               cat("add ", key, "; Llama 3.1 has 1 for low_freq_factor and 4 for high_freq_factor"));
  }
}

// False where the older table of a file and the newer one say different things.
bool agree(const Json& json, const std::string& file, Diagnostics& faults) {
  const auto name = newer_table(json);
  if (!is_table(json, "rope_scaling") || !is_table(json, name)) return true;
  const auto &older = *find_key(json, "rope_scaling"), &newer = *find_key(json, name);
  if (plain(older, json) == plain(newer, json)) return true;
  faults.add(file, cat("rope_scaling = ", older.dump(), " and ", name, " = ", newer.dump(), " disagree"),
             "remove the one that is wrong");
  return false;
}

void settle_length(Json& json, const std::string& name, const RopeReader& reader, const std::string& file,
                   Diagnostics& faults) {
  const auto inside = find_key(json, name)->value(original, Json());
  const Json outside = json.value(original, reader.original);
  if (!outside.is_null() && !inside.is_null() && outside != inside) {
    faults.add(file,
               cat(original, " = ", outside.dump(), " and ", name, ".", original, " = ", inside.dump(), " disagree"),
               "keep the one that is right");
  }
  if (!inside.is_null()) return;
  const Json whole = json.value("max_position_embeddings", Json());
  const auto& chosen = !outside.is_null() ? outside : !whole.is_null() ? whole : reader.longest;
  if (!chosen.is_null()) put_key(json, cat(name, ".", original), chosen);
}

// How much longer the scaled model is than the unscaled one, where only their lengths say it.
void settle_factor(Json& json, const std::string& name, const RopeReader& reader) {
  const auto& table = *find_key(json, name);
  const Json whole = json.value("max_position_embeddings", reader.longest), unscaled = table.value(original, Json());
  if (has(table, "factor") || !whole.is_number() || !unscaled.is_number()) return;
  put_key(json, name + ".factor", whole.get<double>() / unscaled.get<double>());
}

}  // namespace

void settle_rope(Json& json, const RopeReader& reader, const std::string& file, Diagnostics& faults) {
  for (const auto& name : {std::string("rope_scaling"), newer_table(json)}) settle_type(json, name);
  if (!agree(json, file, faults)) return;
  const auto name = is_table(json, "rope_scaling") ? std::string("rope_scaling") : newer_table(json);
  if (!is_table(json, name) || reader.is_set(name + ".rope_type")) return;
  const auto type = type_of(*find_key(json, name));
  if (type == "llama3") require_numbers(*find_key(json, name), name, reader, file, faults);
  if (type == "llama3" || type == "yarn" || type == "longrope") settle_length(json, name, reader, file, faults);
  if (type == "longrope") settle_factor(json, name, reader);
}

}  // namespace capstan::hf
