#pragma once
#include <capstan/base/json.h>
#include <capstan/config/value.h>

#include <string>

namespace imports {

/// What the value of another program's key may be.
enum class JsonType { boolean, integer, number, text, numbers, texts, anything };

/// "a list of numbers".
std::string type_words(JsonType type);
bool has_type(const capstan::Json& value, JsonType type);
/// Converts a value of this type to one of ours.
capstan::config::Value plain_value(const capstan::Json& value, JsonType type);

}  // namespace imports
