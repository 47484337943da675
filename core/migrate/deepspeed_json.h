#pragma once
#include <capstan/base/error.h>
#include <capstan/config/value.h>

#include <nlohmann/json.hpp>
#include <string>

#include "foreign/deepspeed_keys.h"

namespace capstan::migrate {

/// With its keys in the order of the file.
using Json = nlohmann::ordered_json;

/// The text of a DeepSpeed configuration; comments are allowed. A key that stands twice in one table is a fault; what
/// is no JSON throws Error with its line.
Json parse_deepspeed(const std::string& file, const std::string& text, Diagnostics& faults);

/// "a list of numbers".
std::string type_words(foreign::JsonType type);
bool has_type(const Json& value, foreign::JsonType type);
/// A value that has this type, as one of ours.
config::Value plain_value(const Json& value, foreign::JsonType type);

}  // namespace capstan::migrate
