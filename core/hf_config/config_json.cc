#include "hf/config_json.h"

#include <capstan/base/error.h>
#include <capstan/base/json.h>

#include <algorithm>

#include "hf/config_file.h"
#include "hf/json_keys.h"
#include "hf/wrapper.h"

namespace capstan::hf {
namespace {

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

// What a run limits sequences to may be less than what the model can take; that is its original's to say.
bool is_shorter(const config::OptionSpec& spec, const Json& original, const config::Value& value) {
  const auto* length = std::get_if<std::int64_t>(&value);
  return spec.key == "seq_length" && length && original.is_number_integer() && *length < original.get<std::int64_t>();
}

bool has_table(const Json& json, const std::string& name) {
  const auto* table = find_key(json, name);
  return table && table->is_object();
}

// Where an option is written that the file does not have: in the tables that the file has, else under its first
// spelling; of two tables it is the older one's, which all programs read.
std::vector<std::string> written_names(const config::OptionSpec& spec, const Json& json) {
  std::vector<std::string> in_tables;
  for (const auto& name : spec.spellings) {
    const auto dot = name.find('.');
    if (dot == std::string::npos || !has_table(json, name.substr(0, name.rfind('.')))) continue;
    const auto is_of_table = [&](const auto& other) { return other.starts_with(name.substr(0, dot + 1)); };
    if (std::none_of(in_tables.begin(), in_tables.end(), is_of_table)) in_tables.push_back(name);
  }
  if (!in_tables.empty() && spec.spellings.front().find('.') != std::string::npos) return in_tables;
  for (const auto& name : spec.spellings) {
    if (!name.starts_with("rope_parameters.")) return {name};
  }
  return {spec.key};
}

// Every spelling that the original has, so that none of them disagrees. `only_there`: nothing where it has none.
void put_option(Json& json, const config::Resolved& option, bool has_original, bool only_there) {
  bool is_there = false;
  for (const auto& name : names_of(option.spec)) {
    const auto* original = find_key(json, name);
    if (!original) continue;
    is_there = true;
    if (json_of(option.value) != *original && !is_shorter(option.spec, *original, option.value))
      put_key(json, name, json_of(option.value));
  }
  if (is_there || only_there || (has_original && std::holds_alternative<std::monostate>(option.value))) return;
  for (const auto& name : written_names(option.spec, json)) put_key(json, name, json_of(option.value));
}

void put_ids(Json& json, const TokenIds& ids) {
  const auto one = [](std::int64_t id) { return id < 0 ? Json(nullptr) : Json(id); };
  json["bos_token_id"] = one(ids.begin);
  json["eos_token_id"] = ids.ends.size() > 1 ? Json(ids.ends) : one(ids.ends.empty() ? -1 : ids.ends.front());
  json["pad_token_id"] = one(ids.pad);
}

// The configuration says it, not the original.
bool is_asked(const config::Resolved& option) { return option.origin.layer > config::Origin::Layer::model_file; }

bool is_left_out(const layout::FileMap& map, const config::Resolved& option) {
  return std::find(map.left_out.begin(), map.left_out.end(), option.spec.key) != map.left_out.end();
}

// One that such files do not have is written where the original has it, and the user asks for another value.
void put_options(Json& json, const ConfigJson& from, bool has_original) {
  for (const auto& option : from.options) {
    const bool left_out = is_left_out(from.map, option);
    if (!left_out || (has_original && is_asked(option))) put_option(json, option, has_original, left_out);
  }
}

void put_quantization(Json& json, const std::string& quantization) {
  json.erase("quantization_config");
  if (!quantization.empty()) json["quantization_config"] = Json::parse(quantization);
}

// The file as it was, but for what the configuration says otherwise of the text model, and for the tensors' form.
std::string wrapper_json(const ConfigJson& from, Json json) {
  const auto before = json;
  auto& inside = json[text_table];
  for (const auto& option : from.options) {
    if (!is_asked(option)) continue;
    put_option(inside, option, /*has_original=*/true, is_left_out(from.map, option));
    if (option.spec.key == "tie_word_embeddings") json[option.spec.key] = json_of(option.value);
  }
  for (auto* part : {&json, &inside}) {
    for (const char* key : {"dtype", "torch_dtype"}) {
      if (part->contains(key)) (*part)[key] = from.dtype;
    }
  }
  inside.erase("quantization_config");
  put_quantization(json, from.quantization);
  return json == before ? from.original : json.dump(2) + "\n";
}

}  // namespace

std::string config_json(const ConfigJson& from) {
  if (from.map.architecture.empty()) throw Error("this model has no Hugging Face architecture");
  const bool has_original = !from.original.empty();
  auto json = has_original ? parse_config(from.original, "config.json") : Json::object();
  if (is_wrapper(json)) return wrapper_json(from, std::move(json));
  json["architectures"] = Json::array({from.map.architecture});
  put_options(json, from, has_original);
  for (const auto& [key, text] : from.map.more) {
    // A length that is made up here gives way to the original's.
    if (!has_original || key != "max_position_embeddings") put_key(json, key, Json::parse(text));
  }
  if (!has_original) put_ids(json, from.ids);
  // The file has one of the two names; older programs know only "torch_dtype".
  json[json.contains("dtype") ? "dtype" : "torch_dtype"] = from.dtype;
  put_quantization(json, from.quantization);
  return json.dump(2) + "\n";
}

std::string with_answer_ends(const std::string& text, const std::vector<std::int64_t>& ends,
                             std::vector<std::int64_t>& added) {
  auto json = try_parse_json(text);
  if (!json.is_object()) return text;
  auto& said = json["eos_token_id"];
  auto all = said.is_array() ? said : said.is_null() ? Json::array() : Json::array({said});
  for (const auto id : ends) {
    if (std::find(all.begin(), all.end(), Json(id)) != all.end()) continue;
    all.push_back(id);
    added.push_back(id);
  }
  if (added.empty()) return text;
  said = all.size() == 1 ? all[0] : all;
  return json.dump(2) + "\n";
}

}  // namespace capstan::hf
