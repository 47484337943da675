#include "character_properties.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

namespace hf {

namespace {

constexpr char32_t end_of_characters = 0x110000;

// In the order of the table's numbers.
constexpr std::array<std::string_view, 29> category_names{"cn", "lu", "ll", "lt", "lm", "lo", "mn", "mc", "me", "nd",
                                                          "nl", "no", "pc", "pd", "ps", "pe", "pi", "pf", "po", "sm",
                                                          "sc", "sk", "so", "zs", "zl", "zp", "cc", "cf", "co"};

std::string plain_name(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c != '_' && c != '-' && c != ' ') out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

// Neighbouring ranges become one.
CharacterRanges joined_ranges(CharacterRanges ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  CharacterRanges out;
  for (const auto& range : ranges) {
    if (!out.empty() && range.first <= out.back().last + 1) {
      out.back().last = std::max(out.back().last, range.last);
    } else {
      out.push_back(range);
    }
  }
  return out;
}

// The characters of all categories whose names begin so.
CharacterRanges of_categories(std::string_view beginning) {
  CharacterRanges out;
  const auto runs = categories();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!category_names.at(runs[i] & 31U).starts_with(beginning)) continue;
    const char32_t next = i + 1 < runs.size() ? runs[i + 1] >> 5U : end_of_characters;
    out.push_back({runs[i] >> 5U, next - 1});
  }
  return joined_ranges(std::move(out));
}

// The characters that are in one of the two: each range is two edges, and edges of both cancel.
CharacterRanges apart(const CharacterRanges& characters, std::span<const CharacterRange> others) {
  std::vector<char32_t> edges;
  const auto add = [&](const CharacterRange& range) { edges.insert(edges.end(), {range.first, range.last + 1}); };
  std::for_each(characters.begin(), characters.end(), add);
  std::for_each(others.begin(), others.end(), add);
  std::sort(edges.begin(), edges.end());
  CharacterRanges out;
  for (std::size_t i = 0; i + 1 < edges.size(); i += 2) {
    if (edges[i] < edges[i + 1]) out.push_back({edges[i], edges[i + 1] - 1});
  }
  return joined_ranges(std::move(out));
}

bool is_category(const std::string& name) {
  return !name.empty() && name.size() <= 2 &&
         std::any_of(category_names.begin(), category_names.end(), [&](auto known) { return known.starts_with(name); });
}

}  // namespace

std::optional<CharacterRanges> characters_with(std::string_view name) {
  const auto plain = plain_name(name);
  if (plain == "han") return CharacterRanges(han().begin(), han().end());
  if (!is_category(plain)) return {};
  return of_categories(plain);
}

CharacterRanges pattern_word_characters() {
  CharacterRanges out(more_word_characters().begin(), more_word_characters().end());
  for (const char* name : {"l", "m", "nd", "pc"}) {
    const auto more = of_categories(name);
    out.insert(out.end(), more.begin(), more.end());
  }
  return joined_ranges(std::move(out));
}

CharacterRanges word_characters() { return apart(pattern_word_characters(), unlike_word_characters()); }

CharacterRanges digits() { return apart(of_categories("n"), unlike_numbers()); }

CharacterRanges punctuation() {
  auto all = of_categories("p");
  all.insert(all.end(), {{0x21, 0x2F}, {0x3A, 0x40}, {0x5B, 0x60}, {0x7B, 0x7E}});  // ASCII's symbols are among them
  return apart(joined_ranges(std::move(all)), unlike_punctuation());
}

CharacterRanges marks() { return apart(of_categories("mn"), unlike_marks()); }

CharacterRanges all_but(const CharacterRanges& ranges) {
  auto left_out = ranges;
  left_out.push_back({0xD800, 0xDFFF});
  CharacterRanges out;
  char32_t next = 0;
  for (const auto& range : joined_ranges(std::move(left_out))) {
    if (next < range.first) out.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next < end_of_characters) out.push_back({next, end_of_characters - 1});
  return out;
}

bool contains(std::span<const CharacterRange> ranges, char32_t c) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), c,
                                      [](char32_t value, const CharacterRange& range) { return value < range.first; });
  return after != ranges.begin() && c <= std::prev(after)->last;
}

}  // namespace hf
