#include "hf/family.h"

#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/paths.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "hf/nearest.h"
#include "hf/quantization.h"
#include "hf/wrapper.h"

namespace capstan::hf {
namespace {

const std::vector<std::string>* families_of(const plugin::Registration& registration) {
  for (const auto& option : registration.schema) {
    if (option.key == "model_type") return &option.choices;
  }
  return nullptr;
}

bool has(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

std::string quoted(const std::vector<std::string>& list) {
  std::vector<std::string> out;
  for (const auto& item : list) out.push_back("'" + item + "'");
  return join(out);
}

// No object where there is none: that is said where it is read.
Json config_of(const std::string& folder) {
  const auto file = std::filesystem::path(folder) / "config.json";
  return is_there(file) ? try_parse_json(read_file(file)) : Json();
}

// Null where none computes it.
const plugin::Registration* plugin_of_family(const std::string& model_type, plugin::Host& host) {
  for (const auto& found : host.discover()) {
    if (found.kind != "model" || !found.registration) continue;
    const auto* families = families_of(*found.registration);
    if (families && has(*families, model_type)) return &*found.registration;
  }
  return nullptr;
}

// Wrappers whose text model Capstan reads, of all plugins.
std::string known_wrappers(plugin::Host& host) {
  constexpr std::string_view begin = "config.json of ";
  std::set<std::string> names;
  for (const auto& found : host.discover()) {
    if (found.kind != "model" || !found.registration) continue;
    for (const auto& table : found.registration->file_keys) {
      if (table.file.starts_with(begin) && table.find(text_table)) names.insert(table.file.substr(begin.size()));
    }
  }
  return join({names.begin(), names.end()});
}

[[noreturn]] void refuse_wrapper(const Json& json, const std::string& file, plugin::Host& host) {
  throw Error(cat("it is a model of type '", printable(family_of(json)), "' around a text model of type '",
                  printable(family_of(text_part(json))), "', and no plugin knows where such files have that"),
              cat("known are ", known_wrappers(host),
                  "; save the text model by itself with transformers: "
                  "model.language_model and lm_head as its …ForCausalLM"),
              file);
}

// What an adapter's file says that it belongs to; "" where it does not say.
std::string base_of(const std::filesystem::path& adapter) {
  const auto json = try_parse_json(read_file(adapter));
  const auto found = json.is_object() ? json.find("base_model_name_or_path") : json.end();
  return found != json.end() && found->is_string() ? printable(found->get<std::string>()) : "";
}

}  // namespace

void refuse_adapter(const ModelFolder& folder) {
  const std::filesystem::path path(folder.path);
  const auto adapter = path / "adapter_config.json";
  if (!is_there(adapter)) return;
  const auto where = folder.where.empty() ? folder.path : folder.where;
  if (!is_there(path / "config.json")) {
    const auto base = base_of(adapter);
    throw Error(cat(folder.path, " is the folder of a PEFT adapter, not of a model"),
                cat("name its base with model.path", base.empty() ? "" : cat(" (it says \"", base, "\")"),
                    ", and the adapter with strategy.lora.adapter = \"", folder.path, "\""),
                where);
  }
  if (folder.adapter_is_read) return;
  throw Error(cat(folder.path, " has a PEFT adapter next to the model, which transformers would load too"),
              cat("set strategy.lora.adapter = \"", folder.path,
                  "\" to train it further, or take adapter_config.json out of the folder"),
              where);
}

std::string plugin_of_folder(const std::string& folder, plugin::Host& host) {
  refuse_adapter({folder, "", /*adapter_is_read=*/true});
  const auto file = (std::filesystem::path(folder) / "config.json").string();
  const auto json = try_parse_json(read_file(file));
  if (json.is_discarded()) throw Error("it is not JSON", "download the model's folder again", file);
  const auto family = family_of(text_part(json));
  if (family.empty() || family_of(json).empty())
    throw Error("it names no model_type", "name a Hugging Face model folder of a causal language model", file);
  const auto* plugin = plugin_of_family(family, host);
  if (!plugin) refuse_unknown_family(folder, host);
  if (is_wrapper(json) && !reads_wrapper(*plugin, family_of(json))) refuse_wrapper(json, file, host);
  return plugin->name;
}

void check_family(const config::Section& section, const ModelFolder& folder, const plugin::Registration& registration,
                  plugin::Host& host) {
  const auto file = (std::filesystem::path(folder.path) / "config.json").string();
  const auto json = config_of(folder.path);
  if (!json.is_object()) return;
  const auto type = text_part(json).value("model_type", Json());
  const auto* families = families_of(registration);
  if (!type.is_string() || !families || families->empty()) return;
  if (!section.find("model_type") && !has(*families, type.text())) {
    const auto* other = plugin_of_family(type.text(), host);
    if (!other) refuse_unknown_family(folder.path, host);
    throw Error(cat("it is a model of type '", type.text(), "', and plugin '", registration.name, "' computes ",
                    quoted(*families)),
                cat("set model.plugin = \"", other->name, "\""), file);
  }
  if (is_wrapper(json) && !reads_wrapper(registration, family_of(json))) refuse_wrapper(json, file, host);
}

layout::FileMap map_in_folder(const std::string& folder, layout::FileMap map) {
  return is_wrapper(config_of(folder)) ? in_wrapper(std::move(map)) : std::move(map);
}

std::optional<Quantization> quantization_of_folder(const std::string& folder) {
  const auto quantized = quantization_config(config_of(folder));
  if (quantized.is_null()) return {};
  return Quantization{method_of(quantized), is_decodable(quantized)};
}

}  // namespace capstan::hf
