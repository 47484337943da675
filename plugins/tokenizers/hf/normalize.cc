#include "normalize.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

#include "character_properties.h"
#include "characters.h"

namespace hf {

using namespace capstan;

namespace {

void append_character(std::string& out, char32_t c) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes.data());
  out.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(size));
}

void append_form(std::string& out, std::string_view text, utf8proc_option_t options) {
  utf8proc_uint8_t* bytes = nullptr;
  const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                 static_cast<utf8proc_ssize_t>(text.size()), &bytes, options);
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owned(bytes, std::free);
  if (size < 0) throw Error(cat("cannot normalize a text of ", text.size(), " bytes: ", utf8proc_errmsg(size)));
  out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
}

// A newer character neither composes nor is reordered, so the text before it and that after it are independent.
std::string in_form(std::string_view text, utf8proc_option_t options) {
  if (is_ascii(text)) return std::string(text);
  std::string out;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto character = character_at(text, at);
    if (contains(newer_characters(), character.value)) {
      append_form(out, text.substr(begin, at - begin), options);
      out += text.substr(at, character.size);
      begin = at + character.size;
    }
    at += character.size;
  }
  append_form(out, text.substr(begin), options);
  return out;
}

char32_t lower_case(char32_t c) {
  for (const auto& cases : lower_cases()) {
    if (c >= cases.first && c <= cases.last) return static_cast<char32_t>(static_cast<std::int32_t>(c) + cases.step);
  }
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

std::string lowercased(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto character = character_at(text, at);
    at += character.size;
    if (character.value == 0x130) {
      out += "i\u0307";  // the one character whose lower case is two
    } else {
      append_character(out, lower_case(character.value));
    }
  }
  return out;
}

std::string without_marks(std::string_view text) {
  static const auto removed = marks();
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto character = character_at(text, at);
    if (!contains(removed, character.value)) out += text.substr(at, character.size);
    at += character.size;
  }
  return out;
}

std::string_view stripped_of_space(std::string_view text, bool left, bool right) {
  if (left) text.remove_prefix(run_end(text, 0, [](char32_t c) { return contains(spaces(), c); }));
  while (right && !text.empty()) {
    const auto last = character_before(text, text.size());
    if (!contains(spaces(), last.value)) break;
    text.remove_suffix(last.size);
  }
  return text;
}

std::string after_step(const NormalizeStep& step, const std::string& text) {
  constexpr auto composed = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  constexpr auto decomposed = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
  using Kind = NormalizeStep::Kind;
  switch (step.kind) {
    case Kind::prepend:
      return text.empty() ? text : step.content + text;
    case Kind::replace:
      return step.pattern.replaced(text, step.content);
    case Kind::nfc:
      return in_form(text, composed);
    case Kind::nfd:
      return in_form(text, decomposed);
    case Kind::nfkc:
      return in_form(text, static_cast<utf8proc_option_t>(composed | UTF8PROC_COMPAT));
    case Kind::nfkd:
      return in_form(text, static_cast<utf8proc_option_t>(decomposed | UTF8PROC_COMPAT));
    case Kind::lowercase:
      return lowercased(text);
    case Kind::strip:
      return std::string(stripped_of_space(text, step.left, step.right));
    case Kind::strip_accents:
      return without_marks(text);
  }
  return text;
}

}  // namespace

std::string normalized(const std::vector<NormalizeStep>& steps, std::string_view text) {
  std::string out(text);
  for (const auto& step : steps) out = after_step(step, out);
  return out;
}

}  // namespace hf
