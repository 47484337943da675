#include "hf/family.h"

#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/paths.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <filesystem>
#include <vector>

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

// "" where none computes it.
std::string plugin_of_family(const std::string& model_type, plugin::Host& host) {
  for (const auto& found : host.discover()) {
    if (found.kind != "model" || !found.registration) continue;
    const auto* families = families_of(*found.registration);
    if (families && has(*families, model_type)) return found.name;
  }
  return {};
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
  const auto file = std::filesystem::path(folder) / "config.json";
  const auto json = try_parse_json(read_file(file));
  if (json.is_discarded()) throw Error("it is not JSON", "download the model's folder again", file.string());
  const auto found = json.is_object() ? json.find("model_type") : json.end();
  if (found == json.end() || !found->is_string())
    throw Error("it names no model_type", "name a Hugging Face model folder of a causal language model", file.string());
  auto plugin = plugin_of_family(found->get<std::string>(), host);
  if (!plugin.empty()) return plugin;
  throw Error(cat("no model plugin computes models of type '", found->get<std::string>(), "'"),
              "take another model; `capstan plugins` lists the plugins", file.string());
}

void check_family(const config::Section& section, const ModelFolder& folder, const plugin::Registration& registration,
                  plugin::Host& host) {
  const auto file = std::filesystem::path(folder.path) / "config.json";
  const auto json = config_of(folder.path);
  if (!json.is_object()) return;
  const auto type = json.value("model_type", Json());
  const auto* families = families_of(registration);
  if (type.is_string() && families && !families->empty() && !section.find("model_type") &&
      !has(*families, type.text())) {
    const auto other = plugin_of_family(type.text(), host);
    throw Error(
        cat("it is a model of type '", type.get<std::string>(), "', and plugin '", registration.name, "' computes ",
            quoted(*families)),
        other.empty() ? "no plugin computes such models: take another one" : cat("set model.plugin = \"", other, "\""),
        file.string());
  }
}

std::optional<std::string> quantization_of_folder(const std::string& folder) {
  const auto json = config_of(folder);
  const auto quantized = json.is_object() ? json.find("quantization_config") : json.end();
  if (quantized == json.end() || quantized->is_null()) return {};
  const auto method = quantized->is_object() ? quantized->value("quant_method", Json()) : Json();
  if (method == "mxfp4") return {};  // such weights are decoded as they are read
  return method.is_string() ? method.get<std::string>() : "";
}

}  // namespace capstan::hf
