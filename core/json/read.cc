// A JSON value as what its reader asks for.
#include <capstan/json/value.h>

#include <cmath>

namespace capstan {
namespace {

std::string article(const char* noun) { return std::string(noun[0] == 'a' || noun[0] == 'o' ? "an " : "a ") + noun; }

// A value's kind in a sentence.
std::string kind_words(const Json& json) {
  if (json.is_null()) return "null";
  if (json.is_boolean()) return "true or false";
  if (json.is_number_integer() || json.is_number_unsigned()) return "a whole number";
  return json.is_array() ? "a list" : article(json.type_name());
}

}  // namespace

JsonError::~JsonError() = default;
JsonKeyError::~JsonKeyError() = default;
JsonParseError::~JsonParseError() = default;
JsonParseError::JsonParseError(Fault fault, std::size_t byte)
    : JsonError(fault == Fault::number  ? "a number is beyond any that is known"
                : fault == Fault::depth ? "a list or an object lies inside of 100 others"
                                        : "no JSON at byte " + std::to_string(byte)),
      fault_(fault),
      byte_(byte) {}

const char* Json::type_name() const noexcept {
  switch (kind()) {
    case Kind::none:
      return "discarded";
    case Kind::null:
      return "null";
    case Kind::boolean:
      return "boolean";
    case Kind::string:
      return "string";
    case Kind::list:
      return "array";
    case Kind::members:
      return "object";
    default:
      return "number";
  }
}

void Json::fail_kind(const char* wanted) const { throw JsonError("it is " + kind_words(*this) + ", not " + wanted); }

void Json::fail_range() const { throw JsonError("the number " + dump() + " is beyond what is counted with here"); }

void Json::fail_at(std::string_view path, const JsonError& error) {
  throw JsonError(std::string(path) + ": " + error.what());
}

void Json::require(bool fits, std::string_view path, const char* wanted) const {
  if (!fits) throw JsonError(std::string(path) + " is " + kind_words(*this) + ", not " + wanted);
}

const Json& Json::follow(std::string_view path) const {
  const auto* at = this;
  for (std::size_t begin = 0; begin <= path.size();) {
    const auto end = std::min(path.find('.', begin), path.size());
    if (!at->is_object()) at->require(false, path.substr(0, begin == 0 ? 0 : begin - 1), "an object");
    const auto* next = at->member(path.substr(begin, end - begin));
    if (!next) throw JsonKeyError(std::string(path.substr(0, end)) + " is missing");
    at = next;
    begin = end + 1;
  }
  return *at;
}

bool Json::to_bool() const {
  if (const auto* truth = std::get_if<bool>(&value_)) return *truth;
  fail_kind("true or false");
}

std::int64_t Json::to_int64() const {
  if (const auto* number = std::get_if<std::int64_t>(&value_)) return *number;
  constexpr double limit = 9223372036854775808.0;  // 2^63
  if (const auto* number = std::get_if<double>(&value_); number && *number >= -limit && *number < limit)
    return static_cast<std::int64_t>(*number);
  if (is_number()) fail_range();
  fail_kind("a number");
}

std::uint64_t Json::to_uint64() const {
  if (const auto* number = std::get_if<std::uint64_t>(&value_)) return *number;
  constexpr double limit = 18446744073709551616.0;  // 2^64
  if (const auto* number = std::get_if<double>(&value_); number && *number > -1 && *number < limit)
    return static_cast<std::uint64_t>(*number);
  if (const auto* number = std::get_if<std::int64_t>(&value_); number && *number >= 0)
    return static_cast<std::uint64_t>(*number);
  if (is_number()) fail_range();
  fail_kind("a number");
}

double Json::to_double() const {
  if (const auto* number = std::get_if<double>(&value_)) return *number;
  if (const auto* number = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<std::uint64_t>(&value_)) return static_cast<double>(*number);
  fail_kind("a number");
}

const std::string& Json::text() const {
  if (const auto* text = std::get_if<std::string>(&value_)) return *text;
  fail_kind("a text");
}

const Json::List& Json::to_list() const {
  if (const auto* items = std::get_if<List>(&value_)) return *items;
  fail_kind("a list");
}

const JsonObject& Json::to_object() const {
  if (const auto* object = std::get_if<JsonObject>(&value_)) return *object;
  fail_kind("an object");
}

Json::List& Json::as_list() {
  if (is_null()) value_.emplace<List>();
  return const_cast<List&>(to_list());
}

JsonObject& Json::as_object() {
  if (is_null()) value_.emplace<JsonObject>();
  return const_cast<JsonObject&>(to_object());
}

}  // namespace capstan
