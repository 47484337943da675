#include "plugins/tokenizers/hf/split.h"

#include <capstan_catch.h>

#include <string>
#include <vector>

namespace split_test {

using namespace hf;
using Pieces = std::vector<std::string>;

namespace {

Pieces pieces(SplitPattern pattern, std::string_view text) {
  const CharacterClasses classes;
  Pieces out;
  while (!text.empty()) {
    const auto size = first_piece(pattern, classes, text);
    out.emplace_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return out;
}

}  // namespace

// Each expected list is what the tokenizers package's Split gives for the pattern in split.h.
TEST_CASE("GPT-2's pattern") {
  const auto cut = [](std::string_view text) { return pieces(SplitPattern::gpt2, text); };
  CHECK(cut("I'll say it's 12345 times!!") == Pieces{"I", "'ll", " say", " it", "'s", " 12345", " times", "!!"});
  CHECK(cut("I'LL 'ſ") == Pieces{"I", "'", "LL", " '", "ſ"});
  CHECK(cut("a   b\n\n c  ") == Pieces{"a", "  ", " b", "\n\n", " c", "  "});
  CHECK(cut("\tx \n") == Pieces{"\t", "x", " \n"});
  CHECK(cut("x\u3000\u3000y") == Pieces{"x", "\u3000", "\u3000", "y"});
  CHECK(cut("e\u0301²Ⅷ漢字") == Pieces{"e", "\u0301", "²Ⅷ", "漢字"});
}

TEST_CASE("Llama 3's pattern") {
  const auto cut = [](std::string_view text) { return pieces(SplitPattern::llama3, text); };
  CHECK(cut("I'LL 'ſ it'x") == Pieces{"I", "'LL", " '", "ſ", " it", "'x"});
  CHECK(cut("'ſ") == Pieces{"'ſ"});
  CHECK(cut("1234567 (abc)!\r\n\nx") == Pieces{"123", "456", "7", " (", "abc", ")!\r\n\n", "x"});
  CHECK(cut("a \n \n  b") == Pieces{"a", " \n \n", " ", " b"});
  CHECK(cut("a\n  ") == Pieces{"a", "\n", "  "});
  CHECK(cut("\u3000x\rx") == Pieces{"\u3000x", "\r", "x"});
}

TEST_CASE("BLOOM's pattern") {
  const auto cut = [](std::string_view text) { return pieces(SplitPattern::bloom, text); };
  CHECK(cut("One, two.  Three (4)") == Pieces{"One", ",", " two", ". ", " Three", " (", "4", ")"});
  CHECK(cut("漢字。है।x|y") == Pieces{"漢字", "。", "है", "।", "x", "|", "y"});
  CHECK(cut("  \n a") == Pieces{"  \n", " a"});
}

}  // namespace split_test
