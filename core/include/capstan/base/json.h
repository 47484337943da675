#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>

#include <string>
#include <string_view>

CAPSTAN_BEGIN_NAMESPACE

/// Where a list or an object of a JSON text lies inside of 100 others, in words; "" where none does. No file that means
/// something has such. Whoever copies or prints them calls himself for each, until his stack ends.
std::string json_depth_fault(std::string_view text);

/// The JSON of a file's text; `Json` is one of nlohmann's classes. Throws Error(`what` and where it is broken, fix,
/// where).
template <class Json>
Json parse_json(const std::string& text, std::string_view what, const std::string& fix, const std::string& where) {
  auto fault = json_depth_fault(text);
  try {
    if (fault.empty()) return Json::parse(text);
  } catch (const typename Json::parse_error& error) {
    fault = json_fault(text, error.byte);
  } catch (const typename Json::exception&) {
    fault = json_fault(text, 0);
  }
  throw Error(cat(what, fault), fix, where);
}

/// The same, but for a text that is none a value of which is_discarded() is true.
template <class Json>
Json try_parse_json(std::string_view text) {
  if (!json_depth_fault(text).empty()) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

CAPSTAN_END_NAMESPACE
