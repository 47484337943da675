#include "unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <bit>

namespace squad {
namespace {

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

// DerivedCoreProperties.txt, Case_Ignorable: these categories, and the characters that break no word (Word_Break is
// MidLetter, MidNumLet or Single_Quote).
bool is_case_ignorable(char32_t c) {
  constexpr std::u32string_view inside_words =
      U"'.:\u00B7\u0387\u055F\u05F4\u2018\u2019\u2024\u2027\uFE13\uFE52\uFE55\uFF07\uFF0E\uFF1A";
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return inside_words.find(c) != std::u32string_view::npos;
  }
}

// DerivedCoreProperties.txt, Cased: letters with case, and what PropList.txt adds (Other_Uppercase, Other_Lowercase).
bool is_cased(char32_t c) {
  const auto among = [c](char32_t first, char32_t last) { return first <= c && c <= last; };
  switch (category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
      return true;
    default:
      return c == 0xAA || c == 0xBA || among(0x2160, 0x217F) || among(0x24B6, 0x24E9) || among(0x1F130, 0x1F149) ||
             among(0x1F150, 0x1F169) || among(0x1F170, 0x1F189);
  }
}

// The Unicode Standard, table 3-17, Final_Sigma: a cased character before it and none after it, skipping case-ignorable
// ones.
bool is_final_sigma(std::u32string_view text, std::size_t at) {
  const auto matters = [](char32_t c) { return !is_case_ignorable(c); };
  const auto before = text.substr(0, at);
  const auto last = std::find_if(before.rbegin(), before.rend(), matters);
  if (last == before.rend() || !is_cased(*last)) return false;
  const auto after = text.substr(at + 1);
  const auto next = std::find_if(after.begin(), after.end(), matters);
  return next == after.end() || !is_cased(*next);
}

}  // namespace

std::u32string characters(std::string_view utf8) {
  std::u32string out;
  for (std::size_t i = 0; i < utf8.size();) {
    const auto lead = static_cast<unsigned char>(utf8[i++]);
    const auto ones = static_cast<std::size_t>(std::countl_one(lead));
    const std::size_t more = ones >= 2 && ones <= 4 ? ones - 1 : 0;
    auto c = static_cast<char32_t>(lead & (0x7FU >> ones));
    std::size_t read = 0;
    for (; read < more && i + read < utf8.size(); ++read) {
      const auto next = static_cast<unsigned char>(utf8[i + read]);
      if ((next & 0xC0U) != 0x80U) break;
      c = (c << 6U) | (next & 0x3FU);
    }
    const bool whole = lead < 0x80 || (more > 0 && read == more);
    out += whole ? c : U'\uFFFD';
    if (whole) i += more;
  }
  return out;
}

// str.isalnum: letters and numbers.
bool is_word(char32_t c) {
  const auto kind = category(c);
  return (UTF8PROC_CATEGORY_LU <= kind && kind <= UTF8PROC_CATEGORY_LO) ||
         (UTF8PROC_CATEGORY_ND <= kind && kind <= UTF8PROC_CATEGORY_NO);
}

// str.isspace.
bool is_space(char32_t c) {
  const bool is_control = (0x9 <= c && c <= 0xD) || (0x1C <= c && c <= 0x1F) || c == 0x85;
  const auto kind = category(c);
  return is_control || (UTF8PROC_CATEGORY_ZS <= kind && kind <= UTF8PROC_CATEGORY_ZP);
}

std::u32string lower(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == U'\u0130') {
      out += U"i\u0307";
    } else if (text[i] == U'\u03A3' && is_final_sigma(text, i)) {
      out += U'\u03C2';
    } else {
      out += static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(text[i])));
    }
  }
  return out;
}

}  // namespace squad
