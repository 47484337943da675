#pragma once
#include <capstan/base/error.h>
#include <capstan/base/json.h>

#include <string>

#include "imports/values.h"

namespace import_deepspeed {

using capstan::Json;
using imports::has_type;
using imports::JsonType;
using imports::plain_value;
using imports::type_words;

/// Parses a DeepSpeed configuration; comments are allowed. A key that occurs twice in one table is a fault; text that
/// is no JSON throws Error with its line.
Json parse_deepspeed(const std::string& file, const std::string& text, capstan::Diagnostics& faults);

}  // namespace import_deepspeed
