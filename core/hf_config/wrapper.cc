#include "hf/wrapper.h"

#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/record/safetensors.h>

#include <algorithm>
#include <filesystem>
#include <vector>

namespace capstan::hf {

bool is_wrapper(const Json& config) {
  return config.is_object() && config.contains(text_table) && config[text_table].is_object();
}

const Json& text_part(const Json& config) { return is_wrapper(config) ? config[text_table] : config; }

std::string family_of(const Json& config) {
  const auto type = config.is_object() ? config.value("model_type", Json()) : Json();
  return type.is_string() ? type.get<std::string>() : "";
}

bool reads_wrapper(const plugin::Registration& registration, const std::string& family) {
  const auto& tables = registration.file_keys;
  return std::any_of(tables.begin(), tables.end(), [&](const auto& table) {
    return table.file == "config.json of " + family && table.find(text_table);
  });
}

// transformers 5 renames what older files have (conversion_mapping.py, "llava"): language_model.model.X is
// model.language_model.X, and language_model.lm_head is lm_head.
layout::FileMap in_wrapper(layout::FileMap map) {
  map.prefixes = {"model.language_model.", "language_model.model.", "language_model."};
  map.config_table = text_table;
  map.kept.emplace_back();
  return map;
}

namespace {

// Whether the folder's safetensors files have one of these tensors; nothing: it has no such files.
std::optional<bool> has_one_of(const std::string& folder, const std::vector<std::string>& names) {
  const auto any = [&](const auto& has) { return std::any_of(names.begin(), names.end(), has); };
  const auto single = std::filesystem::path(folder) / "model.safetensors";
  const auto index = std::filesystem::path(folder) / "model.safetensors.index.json";
  if (is_there(single)) {
    Diagnostics faults;  // they are said where the file is read
    const checkpoint::MappedTensors file(single, faults);
    return any([&](const auto& name) { return file.has(name); });
  }
  if (!is_there(index)) return {};
  const auto json = try_parse_json(read_file(index));
  const auto map = json.is_object() ? json.value("weight_map", Json()) : Json();
  if (!map.is_object()) return {};
  return any([&](const auto& name) { return map.contains(name); });
}

std::string words_of(const std::optional<bool>& tied) { return !tied ? "not said" : *tied ? "true" : "false"; }

}  // namespace

std::optional<bool> has_head(const std::string& folder) {
  return has_one_of(folder, {"lm_head.weight", "language_model.lm_head.weight"});
}

std::string tied_note(const std::optional<bool>& outer, const std::optional<bool>& inner, bool has_head) {
  return cat("tie_word_embeddings is ", words_of(outer), " for the whole and ", words_of(inner), " in ", text_table,
             has_head ? "; the files have a head, which is trained as a matrix of its own"
                      : "; the files have no head, so it is the embedding's table");
}

std::optional<bool> has_fused_experts(const std::string& folder) {
  const std::string first = "layers.0.mlp.experts.gate_up_proj";
  return has_one_of(folder, {"model." + first, "model.language_model." + first});
}

}  // namespace capstan::hf
