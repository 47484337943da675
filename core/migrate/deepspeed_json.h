#pragma once
#include <capstan/base/error.h>
#include <capstan/config/value.h>

#include <nlohmann/json.hpp>
#include <string>

#include "foreign/deepspeed_keys.h"

namespace capstan::migrate {

/// With its keys in the order of the file.
using Json = nlohmann::ordered_json;

/// Parses a DeepSpeed configuration; comments are allowed. A key that occurs twice in one table is a fault; text that
/// is no JSON throws Error with its line.
Json parse_deepspeed(const std::string& file, const std::string& text, Diagnostics& faults);

/// "a list of numbers".
std::string type_words(foreign::JsonType type);
bool has_type(const Json& value, foreign::JsonType type);
/// Converts a value of this type to one of ours.
config::Value plain_value(const Json& value, foreign::JsonType type);

}  // namespace capstan::migrate
