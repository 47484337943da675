#include "filters.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace jsonl {

using namespace capstan;

namespace {

// The first sign in a text, and where it stands. A longer one goes before those that it begins with.
std::pair<std::size_t, std::string_view> sign_in(std::string_view text) {
  constexpr std::array<std::string_view, 8> signs{"!=", "<=", ">=", "==", "=", "<", ">", " has "};
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (const auto sign : signs) {
      if (text.substr(at).starts_with(sign)) return {at, sign};
    }
  }
  return {text.npos, {}};
}

template <class Number>
int order_of(Number a, Number b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

// Below 0, 0 or above: how a value stands to a text; nothing where neither is more.
std::optional<int> order(const Json& value, const std::string& text) {
  if (value.is_number_integer()) {
    if (const auto whole = number_in<std::int64_t>(text)) return order_of(value.get<std::int64_t>(), *whole);
  }
  const auto number = number_in<double>(text);
  if (value.is_number()) return number ? std::optional(order_of(value.get<double>(), *number)) : std::nullopt;
  if (!value.is_string()) return {};
  if (!number) return order_of<std::string_view>(value.text(), text);
  const auto own = number_in<double>(value.text());
  return own ? std::optional(order_of(*own, *number)) : std::nullopt;
}

bool is_equal(const Json& value, const std::string& text) {
  if (value.is_string()) return value.text() == text;
  if (value.is_boolean()) return text == (value.get<bool>() ? "true" : "false");
  return value.is_number() && order(value, text) == 0;
}

[[noreturn]] void refuse(const Filters::Condition& condition, const Json& value, const char* fix,
                         const std::string& place) {
  throw Error(cat("'", condition.column, "' is of type ", value.type_name(),
                  " here, which data.keep cannot judge by \"", condition.text, "\""),
              fix, place);
}

bool has(const Filters::Condition& condition, const Json& value, const std::string& place) {
  if (value.is_string()) return value.text().find(condition.value) != std::string::npos;
  if (!value.is_array()) refuse(condition, value, "'has' is for texts and lists", place);
  return std::any_of(value.begin(), value.end(), [&](const Json& one) { return is_equal(one, condition.value); });
}

}  // namespace

Filters::Filters(const std::vector<std::string>& texts, std::string name, std::string where, Diagnostics& diagnostics)
    : name_(std::move(name)), where_(std::move(where)) {
  for (const auto& text : texts) {
    const auto [at, sign] = sign_in(text);
    Condition made{text, trim(text.substr(0, at)), sign == "==" ? "=" : trim(sign), {}};
    if (at != text.npos) made.value = trim(text.substr(at + sign.size()));
    const bool may_be_empty = made.sign == "=" || made.sign == "!=";
    if (made.column.empty() || made.sign.empty() || (made.value.empty() && !may_be_empty)) {
      diagnostics.add(where_, cat(name_, " has \"", text, R"(", which is not "COLUMN SIGN VALUE")"),
                      R"(write a column, one of = != < <= > >= has, and a value, such as "score >= 3")");
    } else {
      conditions_.push_back(std::move(made));
    }
  }
}

bool Filters::reads(const std::string& key) const {
  return std::any_of(conditions_.begin(), conditions_.end(),
                     [&](const Condition& one) { return one.column == key || one.column.starts_with(key + "."); });
}

const Json* value_in(const Json& row, const std::string& column) {
  if (!row.is_object()) return nullptr;
  const auto found = row.find(column);
  for (auto dot = column.find('.'); found == row.end() && dot != column.npos; dot = column.find('.', dot + 1)) {
    const auto outer = row.find(column.substr(0, dot));
    if (outer != row.end()) return value_in(*outer, column.substr(dot + 1));
  }
  return found == row.end() || found->is_null() ? nullptr : &*found;
}

bool holds(const Filters::Condition& condition, const Json* value, const std::string& place) {
  const auto& sign = condition.sign;
  if (value == nullptr) return sign == "!=";
  if (sign == "=" || sign == "!=") return is_equal(*value, condition.value) == (sign == "=");
  if (sign == "has") return has(condition, *value, place);
  const auto stands = order(*value, condition.value);
  if (!stands) refuse(condition, *value, "compare numbers with a number, and texts with a text", place);
  const bool may_equal = sign.size() == 2;
  return (*stands == 0 && may_equal) || (sign.front() == '<' ? *stands < 0 : *stands > 0);
}

}  // namespace jsonl
