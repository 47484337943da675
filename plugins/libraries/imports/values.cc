#include "values.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace imports {

using namespace capstan;
using config::Value;

namespace {

// 5e8 is an integer too, as DeepSpeed's own examples write bucket sizes.
bool is_integer(const Json& value) {
  constexpr double exact = 9007199254740992.0;  // 2^53
  return value.is_number() && std::floor(value.get<double>()) == value.get<double>() &&
         std::abs(value.get<double>()) <= exact;
}

bool is_list_of_numbers(const Json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(), [](const Json& one) { return one.is_number(); });
}

bool is_list_of_texts(const Json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(), [](const Json& one) { return one.is_string(); });
}

struct Kind {
  const char* words;
  bool (*fits)(const Json&);
};

const Kind& kind_of(JsonType type) {
  static const std::map<JsonType, Kind> kinds{
      {JsonType::boolean, {"true or false", [](const Json& value) { return value.is_boolean(); }}},
      {JsonType::integer, {"an integer", is_integer}},
      {JsonType::number, {"a number", [](const Json& value) { return value.is_number(); }}},
      {JsonType::text, {"a string", [](const Json& value) { return value.is_string(); }}},
      {JsonType::numbers, {"a list of numbers", is_list_of_numbers}},
      {JsonType::texts, {"a list of strings", is_list_of_texts}},
      {JsonType::anything, {"a table", [](const Json&) { return true; }}}};
  return kinds.at(type);
}

}  // namespace

std::string type_words(JsonType type) { return kind_of(type).words; }

bool has_type(const Json& value, JsonType type) { return kind_of(type).fits(value); }

Value plain_value(const Json& value, JsonType type) {
  if (type == JsonType::boolean) return value.get<bool>();
  if (type == JsonType::integer) return static_cast<std::int64_t>(value.get<double>());
  if (type == JsonType::number && (value.is_number_float() || !is_integer(value))) return value.get<double>();
  if (type == JsonType::number) return value.get<std::int64_t>();
  if (type == JsonType::numbers) return value.get<std::vector<double>>();
  if (type == JsonType::texts) return value.get<std::vector<std::string>>();
  return value.get<std::string>();
}

}  // namespace imports
