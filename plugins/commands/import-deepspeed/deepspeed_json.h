#pragma once
#include <capstan/base/error.h>
#include <capstan/base/json.h>
#include <capstan/config/value.h>

#include <string>

#include "deepspeed_keys.h"

namespace import_deepspeed {

using capstan::Json;

/// Parses a DeepSpeed configuration; comments are allowed. A key that occurs twice in one table is a fault; text that
/// is no JSON throws Error with its line.
Json parse_deepspeed(const std::string& file, const std::string& text, capstan::Diagnostics& faults);

/// "a list of numbers".
std::string type_words(JsonType type);
bool has_type(const Json& value, JsonType type);
/// Converts a value of this type to one of ours.
capstan::config::Value plain_value(const Json& value, JsonType type);

}  // namespace import_deepspeed
