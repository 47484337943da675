#pragma once
#include <capstan/base/export.h>
#include <capstan/base/json.h>

#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace hf {

/// A config.json's object. Throws Error at `file` for a text that is none.
Json parse_config(const std::string& text, const std::string& file);

/// A key of a config.json, inside of an object with a dot ("rope_scaling.factor"); null where there is none.
const Json* find_key(const Json& json, const std::string& dotted);

/// Sets it, in objects that are made where there are none.
void put_key(Json& json, const std::string& dotted, Json value);

}  // namespace hf
CAPSTAN_END_NAMESPACE
