// The text of a JSON value.
#include <capstan/json/value.h>

#include <charconv>
#include <cmath>
#include <ostream>

#include "door.h"

namespace capstan {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";  // U+FFFD

// What the second byte of a character may be; the later ones are all of 0x80 to 0xBF.
struct Second {
  unsigned char from = 0x80;
  unsigned char to = 0xBF;
};

Second second_after(unsigned char first) {
  switch (first) {
    case 0xE0:
      return {0xA0, 0xBF};  // nothing overlong
    case 0xED:
      return {0x80, 0x9F};  // no surrogates
    case 0xF0:
      return {0x90, 0xBF};
    case 0xF4:
      return {0x80, 0x8F};  // nothing beyond Unicode
    default:
      return {};
  }
}

// How many bytes a character has that begins so; 0: none does.
std::size_t length_by(unsigned char first) {
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  return first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

// The bytes from there that are, or begin, one character.
struct Run {
  std::size_t bytes = 1;
  bool is_character = false;
};

Run run_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto length = length_by(byte(at));
  auto allowed = second_after(byte(at));
  std::size_t bytes = 1;
  while (bytes < length && at + bytes < text.size()) {
    const auto next = byte(at + bytes);
    if (next < allowed.from || next > allowed.to) break;
    allowed = {};
    ++bytes;
  }
  return {bytes, bytes == length};
}

// The escape of an ASCII character; empty: it needs none.
std::string escape_of(char c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      break;
  }
  constexpr std::string_view digits = "0123456789abcdef";
  const auto code = static_cast<unsigned char>(c);
  if (code >= 0x20) return {};
  return std::string("\\u00") + digits[code >> 4U] + digits[code & 0xFU];
}

bool is_plain(char c) {
  const auto code = static_cast<unsigned char>(c);
  return code >= 0x20 && code < 0x80 && c != '"' && c != '\\';
}

void add_text(std::string_view text, std::string& out) {
  out += '"';
  for (std::size_t at = 0; at < text.size();) {
    auto end = at;
    while (end < text.size() && is_plain(text[end])) ++end;
    out += text.substr(at, end - at);
    at = end;
    if (at == text.size()) break;
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      out += escape_of(text[at++]);
      continue;
    }
    const auto run = run_at(text, at);
    out += run.is_character ? text.substr(at, run.bytes) : replacement;
    at += run.bytes;
  }
  out += '"';
}

template <class Number>
void add_whole(Number number, std::string& out) {
  char digits[24];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), number).ptr;
  out.append(static_cast<const char*>(digits), static_cast<std::size_t>(end - digits));
}

}  // namespace

class JsonWriter {
 public:
  explicit JsonWriter(int indent) : indent_(indent) {}

  void add(const Json& json, int level) {
    switch (json.kind()) {
      case Json::Kind::none:
        out_ += "<discarded>";
        break;
      case Json::Kind::null:
        out_ += "null";
        break;
      case Json::Kind::boolean:
        out_ += std::get<bool>(json.value_) ? "true" : "false";
        break;
      case Json::Kind::whole:
        add_whole(std::get<std::int64_t>(json.value_), out_);
        break;
      case Json::Kind::natural:
        add_whole(std::get<std::uint64_t>(json.value_), out_);
        break;
      case Json::Kind::real:
        add_real(std::get<double>(json.value_));
        break;
      case Json::Kind::string:
        add_text(std::get<std::string>(json.value_), out_);
        break;
      case Json::Kind::list:
        add_list(json.to_list(), level);
        break;
      case Json::Kind::members:
        add_members(json.items(), level);
        break;
    }
  }
  std::string take() { return std::move(out_); }

 private:
  void add_real(double number) { out_ += std::isfinite(number) ? json::number_text(number) : "null"; }

  // Before the first item of a level: what opens it, then a new line.
  void next(bool& is_first, int level) {
    if (!is_first) out_ += ',';
    is_first = false;
    line(level);
  }
  void line(int level) {
    if (indent_ < 0) return;
    out_ += '\n';
    out_.append(static_cast<std::size_t>(indent_) * static_cast<std::size_t>(level), ' ');
  }
  void add_list(const std::vector<Json>& items, int level) {
    out_ += '[';
    bool is_first = true;
    for (const auto& item : items) {
      next(is_first, level + 1);
      add(item, level + 1);
    }
    if (!is_first) line(level);
    out_ += ']';
  }
  void add_members(const std::vector<JsonMember>& members, int level) {
    out_ += '{';
    bool is_first = true;
    for (const auto& [key, value] : members) {
      next(is_first, level + 1);
      add_text(key, out_);
      out_ += indent_ < 0 ? ":" : ": ";
      add(value, level + 1);
    }
    if (!is_first) line(level);
    out_ += '}';
  }

  int indent_;
  std::string out_;
};

std::string Json::dump(int indent) const {
  JsonWriter writer(indent);
  writer.add(*this, 0);
  return writer.take();
}

std::ostream& Json::print(std::ostream& out) const { return out << dump(); }

}  // namespace capstan
