#include "assembly/model_file.h"

#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/paths.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

namespace capstan::assembly {
namespace {

using Json = nlohmann::ordered_json;

const Json* find(const Json& json, const std::string& dotted) {
  const auto* at = &json;
  for (const auto& key : split(dotted, '.')) {
    if (!at->is_object() || !at->contains(key)) return nullptr;
    at = &(*at)[key];
  }
  return at;
}

// A list with something else in it is given as text, which no option that wants a list takes.
template <class M>
config::Value list_of(const Json& json, bool (Json::*is_one)() const noexcept) {
  if (!std::all_of(json.begin(), json.end(), [&](const Json& item) { return (item.*is_one)(); })) return json.dump();
  return json.get<std::vector<M>>();
}

config::Value value_of(const Json& json, config::Type wanted) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_null()) return {};
  if (!json.is_array()) return json.dump();  // as text, which no option that is no text takes
  if (wanted == config::Type::integers) return list_of<std::int64_t>(json, &Json::is_number_integer);
  if (wanted == config::Type::numbers) return list_of<double>(json, &Json::is_number);
  if (wanted == config::Type::strings) return list_of<std::string>(json, &Json::is_string);
  return json.dump();
}

Json parse(const std::string& text, const std::string& file) {
  constexpr const char* fix = "download the model's folder again";
  auto json = parse_json<Json>(text, "it is not JSON: ", fix, file);
  if (!json.is_object())
    throw Error(cat("it is ", json.type_name(), ", not an object of a model's options"), fix, file);
  return json;
}

std::vector<std::string> names_of(const config::OptionSpec& spec) {
  std::vector<std::string> names{spec.key};
  names.insert(names.end(), spec.spellings.begin(), spec.spellings.end());
  return names;
}

bool has(const config::Section& section, const config::OptionSpec& spec) {
  const auto names = names_of(spec);
  return std::any_of(names.begin(), names.end(), [&](const auto& name) { return section.find(name) != nullptr; });
}

// Without one of these a file describes no model: the plugin's default is the size of a toy.
constexpr std::array sizes{"vocab_size", "hidden_size", "num_layers", "num_heads", "ff_dim"};

void require_sizes(const config::Section& section, const config::Schema& schema, const std::string& file) {
  Diagnostics faults;
  for (const auto& spec : schema) {
    const bool is_size = std::find(sizes.begin(), sizes.end(), spec.key) != sizes.end();
    if (!is_size || std::holds_alternative<std::monostate>(spec.default_value) || has(section, spec)) continue;
    faults.add(file, cat("it does not say how large the model is: ", join(names_of(spec), " or "), " is missing"),
               cat("download it again, or set model.", spec.key));
  }
  faults.throw_if_any();
}

// What transformers writes next to the options that Capstan has, and that changes nothing when it has this value.
bool is_neutral(const std::string& key, const Json& value) {
  if (value.is_null()) return true;
  if (key == "partial_rotary_factor" || key == "factor") return value.is_number() && value.get<double>() == 1;
  return key == "truncate" && value == Json(true);
}

// In a table of which options are known ("rope_scaling"), a key that none of them has is one that is misspelt, or one
// that changes the model in a way that Capstan does not know.
void refuse_unknown_in_tables(const Json& json, const config::Schema& schema, const std::string& file) {
  std::map<std::string, std::vector<std::string>> tables;
  for (const auto& spec : schema) {
    for (const auto& name : spec.spellings) {
      if (const auto dot = name.find('.'); dot != std::string::npos)
        tables[name.substr(0, dot)].push_back(name.substr(dot + 1));
    }
  }
  Diagnostics faults;
  for (const auto& [table, known] : tables) {
    const auto* found = find(json, table);
    if (!found || found->is_null()) continue;
    if (!found->is_object()) {
      faults.add(file, cat(table, " is ", found->dump(), ", not an object"), "download the file again");
      continue;
    }
    for (const auto& [key, value] : found->items()) {
      if (std::find(known.begin(), known.end(), key) != known.end() || is_neutral(key, value)) continue;
      faults.add(file, cat(table, ".", key, " = ", value.dump(), " is unknown"), suggestion(key, known));
    }
  }
  faults.throw_if_any();
}

Json json_of(const config::Value& value) {
  return std::visit(
      [](const auto& held) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::monostate>) {
          return nullptr;
        } else {
          return held;
        }
      },
      value);
}

void put(Json& json, const std::string& dotted, Json value) {
  auto* at = &json;
  for (const auto& key : split(dotted, '.')) {
    if (!at->is_object()) *at = Json::object();
    at = &(*at)[key];
  }
  *at = std::move(value);
}

// What a run limits sequences to may be less than what the model can take; that is its original's to say.
bool is_shorter(const config::OptionSpec& spec, const Json& original, const config::Value& value) {
  const auto* length = std::get_if<std::int64_t>(&value);
  return spec.key == "seq_length" && length && original.is_number_integer() && *length < original.get<std::int64_t>();
}

// The first spelling; where two tables have rotary options, it is the older one's, which all programs read.
std::string written_name(const config::OptionSpec& spec) {
  for (const auto& name : spec.spellings) {
    if (!name.starts_with("rope_parameters.")) return name;
  }
  return spec.key;
}

void put_option(Json& json, const config::Resolved& option, bool has_original) {
  for (const auto& name : names_of(option.spec)) {
    const auto* original = find(json, name);
    if (!original) continue;
    if (json_of(option.value) != *original && !is_shorter(option.spec, *original, option.value))
      put(json, name, json_of(option.value));
    return;
  }
  if (has_original && std::holds_alternative<std::monostate>(option.value)) return;
  put(json, written_name(option.spec), json_of(option.value));
}

void put_ids(Json& json, const TokenIds& ids) {
  const auto one = [](std::int64_t id) { return id < 0 ? Json(nullptr) : Json(id); };
  json["bos_token_id"] = one(ids.begin);
  json["eos_token_id"] = ids.ends.size() > 1 ? Json(ids.ends) : one(ids.ends.empty() ? -1 : ids.ends.front());
  json["pad_token_id"] = one(ids.pad);
}

}  // namespace

config::Section with_preset(const config::Section& section, const ModelPreset& preset, const config::Presets& presets,
                            const std::string& plugin) {
  const auto found = presets.find(preset.name);
  if (found == presets.end()) {
    std::vector<std::string> names;
    for (const auto& [name, values] : presets) names.push_back(name);
    throw Error(cat("model.preset: plugin '", plugin, "' has no preset '", preset.name, "'"),
                names.empty() ? "remove it: this plugin has none" : suggestion(preset.name, names), preset.where);
  }
  auto result = section;
  for (const auto& [key, value] : found->second)
    result.entries.push_back({key, value, {config::Origin::Layer::preset, preset.name, 0}});
  return result;
}

std::string preset_of_id(const std::string& id, const config::Presets& presets) {
  // Word by word, so that bloom-1b1 is not found in bloom-1b15; how words are joined differs ("llama3.1", "Llama-3.1").
  auto name = id.substr(0, id.find('@'));
  while (name.ends_with('/')) name.pop_back();
  name = name.substr(name.rfind('/') + 1);
  name = lower(name);
  std::replace(name.begin(), name.end(), '_', '-');
  const auto words = split(name, '-');
  std::string best;
  for (const auto& [preset, values] : presets) {
    const auto wanted = join(split(preset, '-'), "");
    for (std::size_t first = 0; first < words.size(); ++first) {
      std::string joined;
      for (std::size_t i = first; i < words.size() && joined.size() < wanted.size(); ++i) joined += words[i];
      if (joined == wanted && preset.size() > best.size()) best = preset;
    }
  }
  return best;
}

config::Section with_model_file(const config::Section& section, const ModelFolder& folder,
                                const config::Schema& schema) {
  const auto file = (std::filesystem::path(folder.path) / "config.json").string();
  if (!is_there(file)) {
    throw Error("model.path: there is no file " + file,
                "name a Hugging Face model folder, with config.json and *.safetensors", folder.where);
  }
  const auto json = parse(read_file(file), file);
  refuse_unknown_in_tables(json, schema, file);
  auto result = section;
  for (const auto& spec : schema) {
    if (has(section, spec)) continue;
    for (const auto& name : names_of(spec)) {
      const auto* found = find(json, name);
      if (!found) continue;
      auto value = value_of(*found, spec.type);
      if (!std::holds_alternative<std::monostate>(value)) {
        result.entries.push_back({spec.key, std::move(value), {config::Origin::Layer::model_file, file, 0}});
      }
      break;
    }
  }
  require_sizes(result, schema, file);
  return result;
}

std::string config_json(const ConfigJson& from) {
  if (from.map.architecture.empty()) throw Error("this model has no Hugging Face architecture");
  const bool has_original = !from.original.empty();
  auto json = has_original ? parse(from.original, "config.json") : Json::object();
  json["architectures"] = Json::array({from.map.architecture});
  for (const auto& option : from.options) {
    const auto& left_out = from.map.left_out;
    if (std::find(left_out.begin(), left_out.end(), option.spec.key) == left_out.end())
      put_option(json, option, has_original);
  }
  for (const auto& [key, text] : from.map.more) {
    // A length that is made up here gives way to the original's.
    if (!has_original || key != "max_position_embeddings") put(json, key, Json::parse(text));
  }
  if (!has_original) put_ids(json, from.ids);
  // The file has one of the two names; older programs know only "torch_dtype".
  json[json.contains("dtype") ? "dtype" : "torch_dtype"] = from.dtype;
  json.erase("quantization_config");
  if (!from.quantization.empty()) json["quantization_config"] = Json::parse(from.quantization);
  return json.dump(2) + "\n";
}

}  // namespace capstan::assembly
