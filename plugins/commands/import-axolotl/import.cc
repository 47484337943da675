#include "import.h"

#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/config/model_path.h>

#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace import_axolotl {

using namespace capstan;
using imports::JsonType;

namespace {

const AxolotlKey* find_key(const std::string& path) {
  static const auto by_path = [] {
    std::map<std::string, const AxolotlKey*> out;
    for (const auto& key : axolotl_keys()) out.emplace(key.path, &key);
    return out;
  }();
  const auto found = by_path.find(path);
  return found == by_path.end() ? nullptr : found->second;
}

// Has the table keys inside of this one?
bool has_inside(const std::string& path) {
  static const auto outer = [] {
    std::set<std::string> out;
    for (const auto& key : axolotl_keys()) {
      const auto table = key.path.substr(0, key.path.find('.'));
      if (table != key.path) out.insert(table.substr(0, table.find('[')));
    }
    return out;
  }();
  return outer.contains(path);
}

// false, 0, "" and empty lists and tables ask for nothing.
bool is_off(const Json& value) {
  if (value.is_boolean()) return value == false;
  if (value.is_number()) return value.get<double>() == 0;
  if (value.is_string()) return value.text().empty();
  return value.empty();
}

// YAML's 2e-5 is a text, which axolotl takes for a number; a single text stands for a list.
Json plain(const Json& value, JsonType type) {
  const bool wants_number = type == JsonType::number || type == JsonType::integer;
  if (wants_number && value.is_string()) {
    const auto number = number_in<double>(trim(value.text()));
    return number ? Json(*number) : value;
  }
  if (type == JsonType::text && value.is_number()) return {value.dump()};
  if (type == JsonType::texts && value.is_string()) return Json(std::vector<std::string>{value.text()});
  return value;
}

// The text of eos_token in one of a tokenizer's files.
std::string token_in(const Json& file) {
  const auto found = file.find("eos_token");
  if (found == file.end()) return "";
  if (found->is_string()) return found->text();
  return found->is_object() ? found->value("content", "") : "";
}

}  // namespace

std::string table_path(const std::string& path) {
  std::string out;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] == '[') {
      out += "[]";
      i = path.find(']', i);
      if (i == std::string::npos) break;
    } else {
      out += path[i];
    }
  }
  for (const std::string list : {"test_datasets[]", "pretraining_dataset[]"}) {
    if (out.starts_with(list)) return "datasets[]" + out.substr(list.size());
  }
  const std::string fsdp = "fsdp_config.", twice = fsdp + "fsdp_";
  return out.starts_with(twice) ? fsdp + out.substr(twice.size()) : out;
}

void Import::judge() { walk_inside(file_.value, ""); }

void Import::walk_inside(const Json& value, const std::string& path) {
  if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) walk_inside(value.at(i), cat(path, "[", i, "]"));
  } else if (value.is_object()) {
    for (const auto& [name, inner] : value.items()) {
      if (!inner.is_null()) walk(inner, path.empty() ? name : cat(path, ".", name));
    }
  } else {
    fault(path, cat("is ", value.dump(), ", expected a table"), "write a key and its value below it, or remove it");
  }
}

void Import::walk(const Json& value, const std::string& path) {
  const auto known = table_path(path);
  const auto* key = find_key(known);
  if (key != nullptr) take(*key, value, path);
  if (has_inside(known == "test_datasets" || known == "pretraining_dataset" ? "datasets" : known)) {
    if (key == nullptr || value.is_structured()) walk_inside(value, path);
  } else if (key == nullptr) {
    unknown(path);
  }
}

void Import::unknown(const std::string& path) {
  const auto known = table_path(path);
  const auto prefix = known.substr(0, known.rfind('.') + 1);
  std::vector<std::string> names;
  for (const auto& key : axolotl_keys()) {
    if (key.path.starts_with(prefix)) names.push_back(key.path.substr(prefix.size()));
  }
  const auto fix = imports::unknown_fix(known.substr(prefix.size()), names);
  // Options of the model itself change what it computes.
  if (prefix == "model_config." || prefix == "overrides_of_model_config.")
    return fault(path, "has no counterpart", "set [model]'s option yourself, and remove it");
  note(path, cat("is not a key that import-axolotl knows, and is not taken over: ", fix));
}

void Import::take(const AxolotlKey& key, const Json& value, const std::string& path) {
  switch (key.take) {
    case Take::neutral:
      if (!is_off(value)) note(path, cat("is not taken over: ", key.words));
      return;
    case Take::refused:
      if (!is_off(value)) fault(path, "has no counterpart in Capstan", key.words);
      return;
    case Take::used:
    case Take::copied:
      return keep(key, plain(value, key.type), path);
  }
}

void Import::keep(const AxolotlKey& key, const Json& value, const std::string& path) {
  if (!has_type(value, key.type))
    return fault(path, cat("is ", value.dump(), ", expected ", type_words(key.type)), "change it");
  // Far beyond what any run has, and what whole numbers hold when they are multiplied.
  constexpr double most = 1e9;
  if (key.take == Take::used && value.is_number() && std::abs(value.get<double>()) > most)
    return fault(path, cat("is ", value.dump(), ", expected at most ", number_text(most)), "change it");
  const auto normal = path.starts_with("fsdp_config.") ? table_path(path) : path;
  values_.insert_or_assign(normal, value);
  if (key.take == Take::copied) set(key.ours, plain_value(value, key.type), path);
}

const Json* Import::find(const std::string& path) const {
  const auto found = values_.find(path.starts_with("fsdp_config.") ? table_path(path) : path);
  return found == values_.end() ? nullptr : &found->second;
}

std::string Import::text(const std::string& path) const {
  const auto* found = find(path);
  return found != nullptr && found->is_string() ? found->text() : "";
}

std::vector<std::string> Import::texts(const std::string& path) const {
  const auto* found = find(path);
  return found == nullptr ? std::vector<std::string>() : found->get<std::vector<std::string>>();
}

std::optional<double> Import::number(const std::string& path) const {
  const auto* found = find(path);
  return found == nullptr ? std::nullopt : std::optional(found->get<double>());
}

void Import::set(const std::string& ours, const Value& value, const std::string& path) {
  const auto* old =
      settings_.set(ours, {value, file_.lines.empty() || has(path) ? file_.from(path) : "axolotl's default"});
  if (old == nullptr) return;
  fault(path,
        cat("means ", ours, " = ", config::value_text(value), ", and ", old->from, " ", config::value_text(old->value)),
        "remove one of the two");
}

void Import::set_default(const std::string& ours, const Value& value, const std::string& why) {
  settings_.set_default(ours, value, why);
}

void Import::choose(const std::string& ours, const std::string& example, const std::string& why,
                    const std::string& path) {
  settings_.set(ours, {{}, {}, cat(" = ", example, "  # choose: ", why, " (", file_.from(path), ")")});
  choices_.push_back(cat(file_.where(path), ": ", path, ": choose ", ours, ": ", why));
}

void Import::note(const std::string& path, const std::string& words) {
  settings_.note(cat(file_.where(path), ": ", path, " ", words));
}

void Import::fault(const std::string& path, const std::string& what, const std::string& fix) {
  faults_.add(file_.where(path), cat(path, " ", what), fix);
}

std::string Import::local(const std::string& path) const {
  const std::filesystem::path given(path);
  if (given.is_absolute() || around_.folder.empty()) return path;
  return (std::filesystem::absolute(given).lexically_normal().lexically_relative(
              std::filesystem::absolute(around_.folder).lexically_normal()))
      .string();
}

std::string Import::end_token() const {
  const auto* tokens = find("special_tokens");
  if (tokens != nullptr && tokens->is_object() && !token_in(*tokens).empty()) return token_in(*tokens);
  auto name = text("tokenizer_config");
  if (name.empty()) name = text("base_model");
  try {
    const auto folder = config::find_model({name, std::filesystem::absolute(name).string(), file_.name, "model.path"},
                                           config::hub_cache(around_.environment));
    for (const char* file : {"special_tokens_map.json", "tokenizer_config.json"}) {
      if (!is_file(folder / file)) continue;
      auto token = token_in(try_parse_json(read_file(folder / file)));
      if (!token.empty()) return token;
    }
  } catch (const Error&) {
    return "";  // it is not on this machine: the user is asked
  }
  return "";
}

}  // namespace import_axolotl
