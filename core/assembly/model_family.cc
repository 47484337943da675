#include "assembly/model_family.h"

#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

namespace capstan::assembly {
namespace {

using Json = nlohmann::ordered_json;

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

}  // namespace

std::string plugin_of_family(const std::string& model_type, plugin::Host& host) {
  for (const auto& found : host.discover()) {
    if (found.kind != "model" || !found.registration) continue;
    const auto* families = families_of(*found.registration);
    if (families && has(*families, model_type)) return found.name;
  }
  return {};
}

void check_family(const config::Section& section, const ModelFolder& folder, const plugin::Registration& registration,
                  plugin::Host& host) {
  const auto file = std::filesystem::path(folder.path) / "config.json";
  if (!is_there(file)) return;  // said where it is read
  const auto json = try_parse_json<Json>(read_file(file));
  if (!json.is_object()) return;
  const auto type = json.value("model_type", Json());
  const auto* families = families_of(registration);
  if (type.is_string() && families && !families->empty() && !section.find("model_type") && !has(*families, type)) {
    const auto other = plugin_of_family(type, host);
    throw Error(
        cat("it is a model of type '", type.get<std::string>(), "', and plugin '", registration.name, "' computes ",
            quoted(*families)),
        other.empty() ? "no plugin computes such models: take another one" : cat("set model.plugin = \"", other, "\""),
        file.string());
  }
  const auto quantized = json.find("quantization_config");
  if (quantized == json.end() || quantized->is_null()) return;
  const auto method = quantized->is_object() ? quantized->value("quant_method", Json()) : Json();
  if (method == "bitsandbytes") return;  // whether its tensors can be taken is judged where they are read
  throw Error(cat("its weights are quantized", method.is_string() ? " (" + method.get<std::string>() + ")" : "",
                  ", which is not supported"),
              "take the model that it was quantized from", file.string());
}

}  // namespace capstan::assembly
