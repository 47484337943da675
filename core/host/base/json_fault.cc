// What is wrong with a text that should be JSON.
#include <capstan/base/encoding.h>
#include <capstan/base/error.h>
#include <capstan/base/json.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>

namespace capstan {
namespace {

constexpr auto nowhere = std::string_view::npos;

// Columns are characters, as editors count them.
std::string place_text(std::string_view before) {
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const auto begin = before.rfind('\n') + 1;  // 0 where there is none
  const auto column = std::count_if(before.begin() + static_cast<std::ptrdiff_t>(begin), before.end(),
                                    [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
  return cat("line ", line, ", column ", column + 1);
}

// The end of the text in quotes that begins there; the text's where it has none.
std::size_t end_of_quoted(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\' ? 1 : 0;
  return at;
}

// Calls with each place outside of texts, which begin and end at one, and how many lists and objects are open there,
// until the call returns false.
template <class Call>
void each_outside(std::string_view text, const Call& call) {
  int depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == ']' || c == '}') --depth;
    if (c == '[' || c == '{') ++depth;
    if (!call(at, depth)) return;
    if (c == '"') at = end_of_quoted(text, at);
  }
}

std::string_view number_at(std::string_view text, std::size_t at) {
  return text.substr(at, std::min(text.find_first_not_of("+-.0123456789eE", at), text.size()) - at);
}

// The first number of a JSON text that no double holds; where it begins, npos: there is none.
std::size_t find_huge_number(std::string_view text) {
  auto found = nowhere;
  std::size_t end = 0;
  each_outside(text, [&](std::size_t at, int /*depth*/) {
    if (at < end || (text[at] != '-' && (text[at] < '0' || text[at] > '9'))) return true;
    const auto number = number_at(text, at);
    end = at + number.size();
    if (std::isinf(std::strtod(std::string(number).c_str(), nullptr))) found = at;
    return found == nowhere;
  });
  return found;
}

// The UTF-16 unit of the escape "\ud83d" that stands there; 0: none does.
unsigned long escaped_unit(std::string_view text, std::size_t at) {
  if (at + 6 > text.size() || text.substr(at, 2) != "\\u") return 0;
  return std::strtoul(std::string(text.substr(at + 2, 4)).c_str(), nullptr, 16);
}

// The first escape that is half of a character. What stands before a fault is well formed, so that all its backslashes
// begin escapes.
std::size_t find_half_pair(std::string_view text) {
  for (auto at = text.find('\\'); at != nowhere; at = text.find('\\', at)) {
    const auto first = escaped_unit(text, at), second = escaped_unit(text, at + 6);
    const bool is_half = first >= 0xD800 && first <= 0xDFFF;
    const bool is_pair = first <= 0xDBFF && second >= 0xDC00 && second <= 0xDFFF;
    if (is_half && !is_pair) return at;
    at += is_half ? 12 : 2;
  }
  return nowhere;
}

// What programs write that is no JSON, by the word around this place; empty: it is nothing known.
std::string word_fault(std::string_view text, std::size_t at) {
  constexpr std::array<std::array<std::string_view, 2>, 6> known{{{"nan", "is no number in JSON: write null"},
                                                                  {"inf", "is no number in JSON: write null"},
                                                                  {"infinity", "is no number in JSON: write null"},
                                                                  {"none", "is Python's word: write null"},
                                                                  {"true", "is Python's word: write true"},
                                                                  {"false", "is Python's word: write false"}}};
  const auto is_letter = [&](std::size_t i) { return std::isalpha(static_cast<unsigned char>(text[i])) != 0; };
  auto begin = at, end = at;
  while (begin > 0 && is_letter(begin - 1)) --begin;
  while (end < text.size() && is_letter(end)) ++end;
  const std::string word(text.substr(begin, end - begin));
  for (const auto& [name, fault] : known) {
    if (lower(word) == name && word != "true" && word != "false") return cat(word, " ", fault);
  }
  return text[at] == '\'' ? "texts stand in double quotes, not in single ones" : "";
}

// What is wrong at this byte, where that has words of its own.
std::string reason(std::string_view text, std::size_t at) {
  const auto c = static_cast<unsigned char>(text[at]);
  if (c == '\n') return "a line ends inside of a text: write \\n for it, or close the text";
  if (c < 0x20)
    return cat("the control character ", printable(text.substr(at, 1)), " stands there: take it out, or escape it");
  if (auto word = word_fault(text, at); !word.empty()) return word;
  int open = 1;
  each_outside(text.substr(0, at), [&](std::size_t, int depth) {
    open = depth;
    return true;
  });
  return open == 0 ? "something follows the end of the value" : "";
}

}  // namespace

std::string utf16_fault(std::string_view text) {
  const auto begin = text.substr(0, 2);
  const bool has_zero = begin.size() == 2 && (begin[0] == '\0') != (begin[1] == '\0');
  if (begin != "\xff\xfe" && begin != "\xfe\xff" && !has_zero) return {};
  return cat("it is in UTF-16: make UTF-8 of it, as `iconv -f UTF-16",
             !has_zero          ? ""
             : begin[0] != '\0' ? "LE"
                                : "BE",
             " -t UTF-8 OLD > NEW` does");
}

std::string json_fault(std::string_view text, std::size_t byte) {
  constexpr std::size_t shown_bytes = 30;
  if (auto fault = utf16_fault(text); !fault.empty()) return fault;
  const auto at_place = [&](std::size_t at, const std::string& what) {
    return cat(place_text(text.substr(0, at)), ": ", what);
  };
  if (byte == 0) {
    const auto at = find_huge_number(text);
    if (at == nowhere) return "it has a value that no program can read";
    return at_place(at, cat(number_at(text, at).substr(0, shown_bytes), " is beyond any number"));
  }
  if (const auto at = find_no_utf8(text); at < byte) {
    return at_place(at, cat("the byte ", printable(text.substr(at, 1)),
                            " is no UTF-8: the file is in another encoding, most often Latin-1 or Windows' own, and "
                            "`iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW` makes UTF-8 of these"));
  }
  if (const auto at = find_half_pair(text.substr(0, byte)); at != nowhere && byte <= text.size()) {
    return at_place(at, cat(text.substr(at, 6),
                            " is half of a surrogate pair, that is of a character: write both "
                            "halves, or take it out"));
  }
  if (byte > text.size()) return cat("it ends before its JSON does, at ", place_text(text));
  const auto at = byte - 1;
  const auto known = reason(text, at);
  return at_place(at, known.empty() ? cat("no JSON at '", printable(text.substr(at, shown_bytes)), "'") : known);
}

std::string json_fault(std::string_view text, const JsonParseError& error) {
  return error.fault() == JsonParseError::Fault::depth ? json_depth_fault(text) : json_fault(text, error.byte());
}

Json parse_json(std::string_view text, std::string_view what, const std::string& fix, const std::string& where) {
  try {
    return Json::parse(text);
  } catch (const JsonParseError& error) {
    throw Error(cat(what, json_fault(text, error)), fix, where);
  }
}

Json try_parse_json(std::string_view text) {
  try {
    return Json::parse(text);
  } catch (const JsonParseError&) {
    return Json::discarded();
  }
}

std::string json_depth_fault(std::string_view text) {
  constexpr int most = 100;
  std::string fault;
  each_outside(text, [&](std::size_t at, int depth) {
    if (depth > most) fault = cat(place_text(text.substr(0, at)), ": a list or an object inside of ", most, " others");
    return fault.empty();
  });
  return fault;
}

}  // namespace capstan
