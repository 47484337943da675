#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>
#include <capstan/json/value.h>

#include <string>
#include <string_view>

CAPSTAN_BEGIN_NAMESPACE

/// The JSON of a file's text. Throws Error(`what` and where it is broken, fix, where).
Json parse_json(std::string_view text, std::string_view what, const std::string& fix, const std::string& where);

/// The same, but for a text that is none a value of which is_discarded() is true.
Json try_parse_json(std::string_view text);

/// Where a text is broken that Json::parse throws this error for, in words: "line 3, column 7: …".
std::string json_fault(std::string_view text, const JsonParseError& error);

/// Where a list or an object of a JSON text lies inside of 100 others, in words; "" where none does. No file that means
/// something has such. Whoever copies or prints them calls himself for each, until his stack ends.
std::string json_depth_fault(std::string_view text);

CAPSTAN_END_NAMESPACE
