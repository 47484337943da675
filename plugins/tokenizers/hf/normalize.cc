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
using tokenizer::TextRange;

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

// Parts of the text that a step changes independently of each other.
std::vector<std::string_view> independent_parts(const NormalizeStep& step, std::string_view text) {
  using Kind = NormalizeStep::Kind;
  const bool is_by_character = step.kind == Kind::lowercase || step.kind == Kind::strip_accents;
  std::vector<std::string_view> parts;
  std::string changed;  // the last part
  for (std::size_t at = 0; at < text.size();) {
    const auto next = text.substr(at, character_at(text, at).size);
    at += next.size();
    auto alone = after_step(step, std::string(next));
    // An ASCII character is never joined with what is before it.
    if (!parts.empty() && !is_by_character && !is_ascii(next)) {
      const std::string_view both(parts.back().data(), parts.back().size() + next.size());
      auto together = after_step(step, std::string(both));
      if (together != changed + alone) {
        parts.back() = both;
        changed = std::move(together);
        continue;
      }
    }
    parts.push_back(next);
    changed = std::move(alone);
  }
  return parts;
}

void append_changed(Origins& out, std::string_view part, std::string_view changed, const TextRange* from) {
  if (part == changed) {
    out.insert(out.end(), from, from + part.size());
  } else {
    out.insert(out.end(), changed.size(), {from->begin, from[part.size() - 1].end});
  }
}

Traced traced_step(const NormalizeStep& step, std::string_view text, const TextRange* from) {
  using Kind = NormalizeStep::Kind;
  if (step.kind == Kind::replace) return traced_replaced(step.pattern, text, step.content, from);
  Traced out{after_step(step, std::string(text)), {}};
  if (!from) return out;
  if (step.kind == Kind::prepend) {
    out = {std::string(text), {from, from + text.size()}};
    if (!text.empty()) out.prepend(step.content, /*traces=*/true);
  } else if (step.kind == Kind::strip) {
    const auto kept = stripped_of_space(text, step.left, step.right);
    const auto* first = from + (kept.data() - text.data());
    out.from.assign(first, first + kept.size());
  } else {
    for (const auto& part : independent_parts(step, text))
      append_changed(out.from, part, after_step(step, std::string(part)), from + (part.data() - text.data()));
    if (out.from.size() != out.text.size()) {  // no parts of this text are independent
      out.from.clear();
      append_changed(out.from, text, out.text, from);
    }
  }
  return out;
}

}  // namespace

Traced traced_normalized(const std::vector<NormalizeStep>& steps, std::string_view text, const TextRange* from) {
  if (!from) return {normalized(steps, text), {}};
  Traced out{std::string(text), {from, from + text.size()}};
  for (const auto& step : steps) {
    out = traced_step(step, out.text, out.from.data());
    out.from.resize(out.text.size());  // what a step makes of no text stands for nothing
  }
  return out;
}

std::string normalized(const std::vector<NormalizeStep>& steps, std::string_view text) {
  std::string out(text);
  for (const auto& step : steps) out = after_step(step, out);
  return out;
}

}  // namespace hf
