// The steps around the model. What today's files make of them is compared with the tokenizers package in
// tests/system/parity.
#include <capstan/base/error.h>
#include <capstan_catch.h>

#include <chrono>

#include "plugins/tokenizers/hf/character_properties.h"
#include "plugins/tokenizers/hf/normalize.h"
#include "plugins/tokenizers/hf/regex.h"
#include "plugins/tokenizers/hf/text_pattern.h"
#include "support/tokenizer_files.h"

using namespace capstan;
using namespace hf;
using Ids = std::vector<std::int64_t>;
using Pieces = std::vector<std::string_view>;
using Kind = NormalizeStep::Kind;

namespace {

Pieces cut_at(const std::string& pattern, std::string_view text, Behavior behavior, bool invert = false) {
  return pieces_at(text, TextPattern(Regex(pattern)).matches(text), behavior, invert);
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

std::string normal(Kind kind, const std::string& text) { return normalized({{kind}}, text); }

}  // namespace

TEST_CASE("behaviors: what becomes of the matches that a text is cut at") {
  const auto cut = [](Behavior behavior, bool invert) { return cut_at("-", "-a--b-", behavior, invert); };
  CHECK(cut(Behavior::isolated, false) == Pieces{"-", "a", "-", "-", "b", "-"});
  CHECK(cut(Behavior::removed, false) == Pieces{"a", "b"});
  CHECK(cut(Behavior::merged_with_previous, false) == Pieces{"-", "a-", "-", "b-"});
  CHECK(cut(Behavior::merged_with_next, false) == Pieces{"-a", "-", "-b", "-"});
  CHECK(cut(Behavior::contiguous, false) == Pieces{"-", "a", "--", "b", "-"});
  CHECK(cut(Behavior::removed, true) == Pieces{"-", "-", "-", "-"});
  CHECK(cut(Behavior::merged_with_previous, true) == Pieces{"-a", "-", "-b", "-"});
  CHECK(cut_at("x", "", Behavior::isolated).empty());
}

TEST_CASE("a pattern's matches do not overlap, and an empty one is never where another ends") {
  const auto spans = [](const std::string& pattern, std::string_view text) {
    std::vector<std::pair<std::size_t, std::size_t>> out;
    for (const auto& span : Regex(pattern).matches(text)) out.emplace_back(span.begin, span.end);
    return out;
  };
  using Spans = std::vector<std::pair<std::size_t, std::size_t>>;
  CHECK(spans("aa", "aaaaa") == Spans{{0, 2}, {2, 4}});
  CHECK(spans("b*", "abbé") == Spans{{0, 0}, {1, 3}, {5, 5}});
  CHECK(spans(R"((?=(\d{3})+(?!\d)))", "1234567") == Spans{{1, 1}, {4, 4}});
  CHECK(spans("(?<=é)a", "aéa") == Spans{{3, 4}});  // what comes before a match counts
  CHECK(spans("x", "").empty());
  CHECK_THROWS_WITH(Regex("a)"), Contains("unmatched close parenthesis"));
}

TEST_CASE("a pattern that takes too long for a text, or makes too much of it, is refused and shown in part") {
  const std::string text(20000, 'a');
  CHECK_THROWS_WITH(Regex("(?~a*)*").matches(text, std::chrono::milliseconds(50)),
                    Contains("cannot cut a text of 20000 bytes: it took too long, and had come to byte "));
  // 65,536 ways from each of its places, which is within the limit of each.
  CHECK_THROWS_WITH(Regex("(?:a|aa){1,15}b").matches(text + "cb"), Contains("retry-limit-in-search over"));
  CHECK_THROWS_WITH(TextPattern("a").replaced(text, std::string(10000, 'b')),
                    Contains("a text of 20000 bytes becomes more than 18777216 where matches are replaced"));
  CHECK(TextPattern("a").replaced(text, "bcd").size() == 60000);
  CHECK(shown_pattern(std::string(1000, 'x')) == std::string(200, 'x') + " …");
}

TEST_CASE("a pattern's classes are the tokenizers package's, whatever Unicode version this Oniguruma has") {
  CHECK(as_pairs(matched(R"(\p{Lu})")) == as_pairs(*characters_with("Lu")));
  CHECK(as_pairs(matched(R"([\p{^l-_U}])")) == as_pairs(all_but(*characters_with("Lu"))));
  CHECK(as_pairs(matched(R"(\P{N})")) == as_pairs(all_but(*characters_with("N"))));
  CHECK(as_pairs(matched(R"([^\P{^Han}])")) == as_pairs(all_but(*characters_with("Han"))));
  CHECK(as_pairs(matched(R"(\w)")) == as_pairs(pattern_word_characters()));
  CHECK(as_pairs(matched(R"([^\D])")) == as_pairs(*characters_with("Nd")));
  CHECK(as_pairs(matched(R"(\s)")) == as_pairs(spaces()));  // Oniguruma's own: it has not changed since Unicode 6.3
  CHECK(contains(*characters_with("lo"), 0x2EBF0));         // new in Unicode 15.1
  CHECK(with_own_classes(R"([]\]\[a]\.[^]x]\s)") == R"([]\]\[a]\.[^]x]\s)");
  CHECK(cut_at(R"(\b)", "a1_ ²x, b", Behavior::isolated) == Pieces{"a1_", " ", "²x", ", ", "b"});
  CHECK(cut_at(R"(\B)", "ab  c", Behavior::isolated) == Pieces{"a", "b ", " c"});
}

TEST_CASE("classes that are known to no table are refused") {
  for (const char* pattern : {R"(\p{Greek})", R"(\p{})", R"(\pL)", R"([[:upper:]])", R"(\X)", R"(\p{Lxy})"}) {
    INFO(pattern);
    CHECK_THROWS_WITH(Regex(pattern), Contains("is not supported in a pattern (supported: "));
  }
}

TEST_CASE("normal forms") {
  CHECK(normal(Kind::nfc, "e\u0301 \u1100\u1161\u11a8 \u0958") == "é 각 \u0915\u093c");
  CHECK(normal(Kind::nfd, "é 각 a\u0301\u0323") == "e\u0301 \u1100\u1161\u11a8 a\u0323\u0301");
  CHECK(normal(Kind::nfkc, "ﬁ ① ｶﾞ Å") == "fi 1 ガ Å");
  CHECK(normal(Kind::nfkd, "ﬁ é") == "fi e\u0301");
  CHECK(normal(Kind::nfc, std::string("a\0é", 4)) == std::string("a\0é", 4));
  // Characters that came after Unicode 9 stay, and so does the order of what is around them.
  CHECK(normal(Kind::nfkc, "\u32ff") == "\u32ff");
  CHECK(normal(Kind::nfc, "\U00011935\U00011930") == "\U00011935\U00011930");
  CHECK(normal(Kind::nfd, "a\u0301\u08ca\u0323") == "a\u0301\u08ca\u0323");
}

TEST_CASE("other normalizers") {
  CHECK(normal(Kind::lowercase, "ÀΣİẞ A\U00010D50") == "àσi\u0307ß a\U00010D70");
  CHECK(normal(Kind::strip_accents, "e\u0301\u0903x\u20dd") == "ex");
  const auto strip = [](bool left, bool right) {
    return normalized({{Kind::strip, {}, {}, left, right}}, "\u3000 a \n");
  };
  CHECK(strip(true, true) == "a");
  CHECK(strip(true, false) == "a \n");
  CHECK(strip(false, true) == "\u3000 a");
  CHECK(normalized({{Kind::prepend, {}, "_"}}, "").empty());
  CHECK(normalized({{Kind::replace, TextPattern(Regex("(a)b")), "\\1"}}, "abab c") == "\\1\\1 c");  // as it is
  CHECK(normalized({{Kind::replace, TextPattern("a")}}, "banana") == "bnn");
}

namespace {

nlohmann::json sequence(const nlohmann::json& steps) { return {{"type", "Sequence"}, {"pretokenizers", steps}}; }

}  // namespace

TEST_CASE("Qwen's file: composed characters, each digit a piece") {
  auto file = byte_level_file();
  file["model"]["vocab"].update({{"1", 10}, {"2", 11}, {"12", 12}, {"Ã", 13}, {"©", 14}});
  file["model"]["merges"].push_back({"1", "2"});
  file["normalizer"] = {{"type", "NFC"}};
  const std::string pattern =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const nlohmann::json split{
      {"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  const nlohmann::json bytes{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  file["pre_tokenizer"] = sequence({split, bytes});
  CHECK(opened(file)->encode("ab12 ab") == Ids{5, 10, 11, 9});
  CHECK(opened(file)->encode("e\u0301") == Ids{13, 14});
  file["added_tokens"] = {added_token(15, "a\u0301", {{"normalized", true}}), added_token(16, "e\u0301")};
  CHECK(opened(file)->encode("áe\u0301é") == Ids{15, 16, 13, 14});  // raw ones are found in the text as it is
}

TEST_CASE("Gemma's file: spaces become a character, and Split finds none") {
  auto file = sentencepiece_file();
  file["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
  file["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "MergedWithPrevious"}, {"invert", false}};
  CHECK(opened(file)->encode("ab ab") == Ids{8, 9});
  file["normalizer"] = nullptr;
  file["model"]["vocab"][" "] = 10;
  CHECK(opened(file)->encode("ab ab") == Ids{8, 10, 8});
}

TEST_CASE("steps after ByteLevel cut its characters, even inside one of the text's") {
  auto file = byte_level_file();
  file["model"]["vocab"].update({{"Â", 10}, {"½", 11}, {"Â½", 12}, {"1", 13}});
  file["model"]["merges"].push_back({"Â", "½"});
  const nlohmann::json digits{{"type", "Digits"}, {"individual_digits", true}};
  CHECK(opened(file)->encode("½1a b") == Ids{12, 13, 0, 4, 1});
  file["pre_tokenizer"] = sequence({file["pre_tokenizer"], digits});
  CHECK(opened(file)->encode("½1a b") == Ids{10, 11, 13, 0, 4, 1});  // the byte BD is written as "½", a number
}

TEST_CASE("Digits, Punctuation and Metaspace's decoder") {
  auto file = byte_level_file();
  file["model"]["vocab"].update({{"1", 10}, {"!", 11}, {"11", 12}, {"!!", 13}, {"a1", 14}});
  for (const char* pair : {"1", "!"}) file["model"]["merges"].push_back({pair, pair});
  file["model"]["merges"].push_back({"a", "1"});
  const auto steps = [&](const nlohmann::json& step) {
    file["pre_tokenizer"] =
        sequence({step, {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}});
    return opened(file)->encode("a11!!");
  };
  CHECK(steps({{"type", "Digits"}, {"individual_digits", false}}) == Ids{0, 12, 13});
  CHECK(steps({{"type", "Digits"}, {"individual_digits", true}}) == Ids{0, 10, 10, 13});
  CHECK(steps({{"type", "Punctuation"}}) == Ids{0, 12, 11, 11});
  CHECK(steps({{"type", "Punctuation"}, {"behavior", "Contiguous"}}) == Ids{0, 12, 13});
  auto words = sentencepiece_file();
  words["decoder"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}, {"split", true}};
  CHECK(opened(words)->decode({9, 9}) == "ab ab");
  words["decoder"]["prepend_scheme"] = "never";
  CHECK(opened(words)->decode({9, 9}) == " ab ab");
  words["decoder"] = {{"type", "Replace"}, {"pattern", {{"Regex", "[▁a]"}}}, {"content", "-"}};
  CHECK(opened(words)->decode({9, 6}) == "--b-");
}
