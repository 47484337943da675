#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/config/value.h>

#include <cmath>
#include <type_traits>

namespace capstan::config {
namespace {

std::string quoted(const std::string& text) {
  static constexpr char hex[] = "0123456789ABCDEF";
  std::string out = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (code < 0x20 || code == 0x7F) {
      out += "\\u00";
      out += hex[code >> 4U];
      out += hex[code & 15U];
    } else {
      out += c;
    }
  }
  return out + '"';
}

// A float in TOML has a point or an exponent, or it reads back as an integer.
std::string float_text(double number) {
  auto text = number_text(number);
  if (std::isfinite(number) && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string scalar_text(bool value) { return value ? "true" : "false"; }
std::string scalar_text(std::int64_t value) { return std::to_string(value); }
std::string scalar_text(double value) { return float_text(value); }
std::string scalar_text(const std::string& value) { return quoted(value); }

template <class T>
std::string scalar_text(const std::vector<T>& values) {
  std::vector<std::string> parts;
  parts.reserve(values.size());
  for (const auto& value : values) parts.push_back(scalar_text(value));
  return "[" + join(parts) + "]";
}

}  // namespace

std::string value_text(const Value& value) {
  return std::visit(
      [](const auto& held) -> std::string {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::monostate>) {
          return "-";
        } else {
          return scalar_text(held);
        }
      },
      value);
}

std::string Origin::text() const {
  switch (layer) {
    case Layer::default_value:
      return "default";
    case Layer::preset:
      return "preset";
    case Layer::command_line:
      return "command line";
    case Layer::model_file:
    case Layer::file:
      return line > 0 ? cat(file, ":", line) : file;
  }
  assertion_failed("a layer", __FILE__, __LINE__);
}

const Entry* Section::find(const std::string& key) const {
  for (const auto& entry : entries) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

}  // namespace capstan::config
