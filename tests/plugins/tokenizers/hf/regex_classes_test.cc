#include <capstan/base/error.h>
#include <capstan_catch.h>

#include "plugins/tokenizers/hf/character_properties.h"
#include "plugins/tokenizers/hf/regex.h"
#include "plugins/tokenizers/hf/text_pattern.h"

namespace regex_classes_test {

using namespace hf;
using Pieces = std::vector<std::string_view>;

namespace {

Pieces cut_at(const std::string& pattern, std::string_view text) {
  return pieces_at(text, TextPattern(Regex(pattern)).matches(text), Behavior::isolated, false);
}

std::string encoded(char32_t c) {
  std::string out;
  if (c < 0x80) return {static_cast<char>(c)};
  if (c >= 0x10000) {
    out += static_cast<char>(0xF0U | c >> 18U);
    out += static_cast<char>(0x80U | (c >> 12U & 0x3FU));
  } else if (c >= 0x800) {
    out += static_cast<char>(0xE0U | c >> 12U);
  }
  out += static_cast<char>(c < 0x800 ? 0xC0U | c >> 6U : 0x80U | (c >> 6U & 0x3FU));
  return out + static_cast<char>(0x80U | (c & 0x3FU));
}

// The characters that a pattern matches, as ranges.
CharacterRanges matched(const std::string& pattern) {
  const Regex regex(pattern);
  CharacterRanges out;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if ((c >= 0xD800 && c < 0xE000) || regex.matches(encoded(c)).empty()) continue;
    if (!out.empty() && out.back().last + 1 == c) {
      out.back().last = c;
    } else {
      out.push_back({c, c});
    }
  }
  return out;
}

std::vector<std::pair<char32_t, char32_t>> as_pairs(std::span<const CharacterRange> ranges) {
  std::vector<std::pair<char32_t, char32_t>> out;
  for (const auto& range : ranges) out.emplace_back(range.first, range.last);
  return out;
}

}  // namespace

TEST_CASE("a pattern's classes are the tokenizers package's, whatever Unicode version this Oniguruma has") {
  CHECK(as_pairs(matched(R"(\p{Lu})")) == as_pairs(*characters_with("Lu")));
  CHECK(as_pairs(matched(R"([\p{^l-_U}])")) == as_pairs(all_but(*characters_with("Lu"))));
  CHECK(as_pairs(matched(R"(\P{N})")) == as_pairs(all_but(*characters_with("N"))));
  CHECK(as_pairs(matched(R"([^\P{^Han}])")) == as_pairs(all_but(*characters_with("Han"))));
  CHECK(as_pairs(matched(R"(\w)")) == as_pairs(pattern_word_characters()));
  CHECK(as_pairs(matched(R"([^\D])")) == as_pairs(*characters_with("Nd")));
  CHECK(as_pairs(matched(R"(\s)")) == as_pairs(spaces()));  // Oniguruma's own: it has not changed since Unicode 6.3
  CHECK(contains(*characters_with("lo"), 0x2EBF0));         // of Unicode 15.1
  CHECK(with_own_classes(R"([]\]\[a]\.[^]x]\s)") == R"([]\]\[a]\.[^]x]\s)");
  CHECK(cut_at(R"(\b)", "a1_ ²x, b") == Pieces{"a1_", " ", "²x", ", ", "b"});
  CHECK(cut_at(R"(\B)", "ab  c") == Pieces{"a", "b ", " c"});
}

TEST_CASE("classes that are known to no table are refused") {
  for (const char* pattern : {R"(\p{Greek})", R"(\p{})", R"(\pL)", R"([[:upper:]])", R"(\X)", R"(\p{Lxy})"}) {
    INFO(pattern);
    CHECK_THROWS_WITH(Regex(pattern), Contains("is not supported in a pattern (supported: "));
  }
}

}  // namespace regex_classes_test
