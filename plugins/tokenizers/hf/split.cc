#include "split.h"

#include <algorithm>
#include <array>

namespace hf {

namespace {

bool is_newline(char32_t c) { return c == '\r' || c == '\n'; }

// 's|'t|'re|'ve|'m|'ll|'d at the front: its bytes, or 0. If case is ignored, 's is also 'ſ (U+017F folds to s).
std::size_t contraction(std::string_view text, bool any_case) {
  if (text.size() < 2 || text[0] != '\'') return 0;
  const auto letter = [&](std::size_t i) {
    const char c = i < text.size() ? text[i] : '\0';
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  const char a = letter(1);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  const char b = letter(2);
  if ((b == 'e' && (a == 'r' || a == 'v')) || (a == 'l' && b == 'l')) return 3;
  return any_case && text.substr(1, 2) == "\xC5\xBF" ? 3 : 0;
}

// \s+(?!\S)|\s+ where white space is: the last one is left for a word that follows it.
std::size_t white_space(std::string_view text, std::size_t end) {
  if (end == text.size()) return end;
  const auto last = character_before(text, end).size;
  return end > last ? end - last : end;
}

std::size_t gpt2_piece(const CharacterClasses& classes, std::string_view text) {
  if (const auto size = contraction(text, false)) return size;
  const auto first = character_at(text, 0);
  const std::size_t at = first.value == ' ' && text.size() > 1 ? 1 : 0;
  const auto c = at == 0 ? first.value : character_at(text, at).value;
  if (classes.is_letter(c)) return run_end(text, at, [&](char32_t d) { return classes.is_letter(d); });
  if (classes.is_number(c)) return run_end(text, at, [&](char32_t d) { return classes.is_number(d); });
  if (classes.is_other(c)) return run_end(text, at, [&](char32_t d) { return classes.is_other(d); });
  return white_space(text, run_end(text, 0, [&](char32_t d) { return classes.is_space(d); }));
}

std::size_t llama3_white_space(const CharacterClasses& classes, std::string_view text) {
  const auto end = run_end(text, 0, [&](char32_t d) { return classes.is_space(d); });
  const auto newline = text.substr(0, end).find_last_of("\r\n");
  return newline != std::string_view::npos ? newline + 1 : white_space(text, end);
}

std::size_t llama3_piece(const CharacterClasses& classes, std::string_view text, int most_digits) {
  const auto is_letter = [&](char32_t c) { return classes.is_letter(c); };
  if (const auto size = contraction(text, true)) return size;
  const auto first = character_at(text, 0);
  const auto c = first.value;
  if (is_letter(c)) return run_end(text, 0, is_letter);
  if (classes.is_number(c)) {
    std::size_t at = 0;
    for (int digits = 0; digits < most_digits && at < text.size(); ++digits) {
      const auto digit = character_at(text, at);
      if (!classes.is_number(digit.value)) break;
      at += digit.size;
    }
    return at;
  }
  const bool alone = first.size == text.size();
  if (!is_newline(c) && !alone && is_letter(character_at(text, first.size).value))
    return run_end(text, first.size, is_letter);
  const std::size_t at = c == ' ' && !alone ? 1 : 0;
  if (classes.is_other(character_at(text, at).value)) {
    const auto end = run_end(text, at, [&](char32_t d) { return classes.is_other(d); });
    return run_end(text, end, is_newline);
  }
  return llama3_white_space(classes, text);
}

// A character of BLOOM's words.
bool in_bloom_word(const CharacterClasses& classes, char32_t c) {
  constexpr std::array<char32_t, 14> excluded{U'(', U')',  U'|',  U'.',  U',', U'!', U'?',
                                              U'…', U'。', U'，', U'、', U'।', U'۔', U'،'};
  return !classes.is_space(c) && std::find(excluded.begin(), excluded.end(), c) == excluded.end();
}

std::size_t bloom_piece(const CharacterClasses& classes, std::string_view text) {
  const auto in_word = [&](char32_t c) { return in_bloom_word(classes, c); };
  // Where the match that begins at `at` ends; `at` when none does.
  const auto match_end = [&](std::size_t at) {
    const auto word = text[at] == ' ' ? at + 1 : at;
    const auto end = run_end(text, word, in_word);
    return end == word ? at : end;
  };
  if (const auto end = match_end(0)) return end;
  std::size_t at = character_at(text, 0).size;
  while (at < text.size() && match_end(at) == at) at += character_at(text, at).size;
  return at;
}

}  // namespace

std::size_t first_piece(SplitPattern pattern, const CharacterClasses& classes, std::string_view text) {
  switch (pattern) {
    case SplitPattern::gpt2:
      return gpt2_piece(classes, text);
    case SplitPattern::llama3:
      return llama3_piece(classes, text, 3);
    case SplitPattern::qwen2:
      return llama3_piece(classes, text, 1);
    case SplitPattern::bloom:
      return bloom_piece(classes, text);
  }
  return text.size();
}

}  // namespace hf
