#include "hf/json_keys.h"

#include <capstan/base/json.h>
#include <capstan/base/text.h>

namespace capstan::hf {

Json parse_config(const std::string& text, const std::string& file) {
  constexpr const char* fix = "download the model's folder again";
  auto json = parse_json(text, "it is not JSON: ", fix, file);
  if (!json.is_object())
    throw Error(cat("it is ", json.type_name(), ", not an object of a model's options"), fix, file);
  return json;
}

const Json* find_key(const Json& json, const std::string& dotted) {
  const auto* at = &json;
  for (const auto& key : split(dotted, '.')) {
    if (!at->is_object() || !at->contains(key)) return nullptr;
    at = &(*at)[key];
  }
  return at;
}

void put_key(Json& json, const std::string& dotted, Json value) {
  auto* at = &json;
  for (const auto& key : split(dotted, '.')) {
    if (!at->is_object()) *at = Json::object();
    at = &(*at)[key];
  }
  *at = std::move(value);
}

}  // namespace capstan::hf
