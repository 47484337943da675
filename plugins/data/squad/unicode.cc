#include "unicode.h"

#include "unicode_tables.h"

#include <algorithm>
#include <bit>

namespace squad {
namespace {

template <class Table>
auto find_range(const Table& table, char32_t c) {
  const auto after = std::upper_bound(table.begin(), table.end(), c,
                                      [](char32_t value, const auto& range) { return value < range.first; });
  return after == table.begin() || c > std::prev(after)->last ? table.end() : std::prev(after);
}

template <class Table>
bool contains(const Table& table, char32_t c) {
  return find_range(table, c) != table.end();
}

// The Unicode Standard, table 3-17, Final_Sigma: a cased character before it and none after it, skipping case-ignorable
// ones.
bool is_final_sigma(std::u32string_view text, std::size_t at) {
  const auto matters = [](char32_t c) { return !contains(case_ignorable_characters, c); };
  const auto before = text.substr(0, at);
  const auto last = std::find_if(before.rbegin(), before.rend(), matters);
  if (last == before.rend() || !contains(cased_characters, *last)) return false;
  const auto after = text.substr(at + 1);
  const auto next = std::find_if(after.begin(), after.end(), matters);
  return next == after.end() || !contains(cased_characters, *next);
}

char32_t lower_one(char32_t c) {
  const auto* const run = find_range(lower_runs, c);
  if (run == lower_runs.end() || (c - run->first) % run->stride != 0) return c;
  return static_cast<char32_t>(static_cast<std::int64_t>(c) + run->delta);
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

bool is_word(char32_t c) { return contains(word_characters, c); }

bool is_space(char32_t c) { return contains(space_characters, c); }

std::u32string lower(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == U'\u0130') {
      out += U"i\u0307";
    } else if (text[i] == U'\u03A3' && is_final_sigma(text, i)) {
      out += U'\u03C2';
    } else {
      out += lower_one(text[i]);
    }
  }
  return out;
}

}  // namespace squad
