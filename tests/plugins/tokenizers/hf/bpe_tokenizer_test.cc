#include <capstan/base/error.h>
#include <capstan/base/json.h>
#include <capstan_catch.h>

#include "support/tokenizer_files.h"

namespace bpe_tokenizer_test {

using namespace capstan;
using Ids = std::vector<std::int64_t>;
using json = capstan::Json;

TEST_CASE("byte-level BPE merges the earliest pair of the list first, of equal ones the leftmost") {
  const auto tokenizer = opened(byte_level_file());
  CHECK(tokenizer->vocab_size() == 10);
  CHECK(tokenizer->encode("").empty());
  CHECK(tokenizer->encode("abc") == Ids{0, 6});  // b c comes before a b
  CHECK(tokenizer->encode("abab ab") == Ids{5, 5, 9});
  CHECK(tokenizer->encode("a  b") == Ids{0, 4, 4, 1});
  CHECK(tokenizer->encode("axb") == Ids{5});  // no unknown token: a byte that is not in the vocabulary is lost
  CHECK(tokenizer->decode({9, 6, 4, 12345, -1, 0}) == " abbc a");
}

TEST_CASE("a token that no merge makes is found whole with ignore_merges only") {
  CHECK(opened(byte_level_file())->encode("abc") == Ids{0, 6});
  CHECK(opened(with(byte_level_file(), "/model/ignore_merges", true))->encode("abc") == Ids{7});
}

TEST_CASE("ill-formed UTF-8 is encoded as U+FFFD") {
  auto file = byte_level_file();
  file["model"]["vocab"].update({{"ï", 10}, {"¿", 11}, {"½", 12}});  // EF BF BD
  CHECK(opened(file)->encode("a\xC3(b") == Ids{0, 10, 11, 12, 1});
  CHECK(opened(file)->decode({0, 10, 11, 1}) == "a\uFFFDb");
}

TEST_CASE("characters outside the vocabulary become their bytes' tokens, else one unknown token for all in a row") {
  const auto tokenizer = opened(sentencepiece_file());
  CHECK(tokenizer->encode("é") == Ids{5, 3, 4});
  CHECK(tokenizer->encode("漢字b") == Ids{5, 0, 7});
  CHECK(opened(with(sentencepiece_file(), "/model/fuse_unk", false))->encode("漢字b") == Ids{5, 0, 0, 7});
  CHECK(tokenizer->decode({9, 3, 4, 5, 6}) == "abé a");
  CHECK(tokenizer->decode({3, 3, 4, 6}) == "\uFFFD\uFFFD\uFFFDa");  // a run that is no UTF-8: one for each byte
  CHECK(tokenizer->decode({1, 9, 2}) == "ab");                      // special tokens give no text
}

TEST_CASE("a text without pieces merges in one heap, however long") {
  auto file = sentencepiece_file();
  std::string token = "a";
  for (int id = 10; id < 20; ++id, token += token) {
    file["model"]["merges"].push_back(json::array({token, token}));
    file["model"]["vocab"][token + token] = id;
  }
  CHECK(opened(file)->encode(std::string(300'000, 'a')).size() == 1 + 300'000 / 1024 + 5);  // 992 = 512+256+128+64+32
}

TEST_CASE("added tokens are found before anything else, with their flags") {
  auto file = byte_level_file();
  file["added_tokens"] = {added_token(10, "<x>"),
                          added_token(11, "<x>y"),
                          added_token(12, "[l]", {{"lstrip", true}}),
                          added_token(13, "[r]", {{"rstrip", true}}),
                          added_token(14, "dd", {{"single_word", true}}),
                          added_token(15, "<e>", {{"special", true}})};
  const auto tokenizer = opened(file);
  CHECK(tokenizer->vocab_size() == 16);
  CHECK(tokenizer->encode("a<x>b<x>y<x") == Ids{0, 10, 1, 11});
  CHECK(tokenizer->encode("a  [l] a  [r]  a") == Ids{0, 12, 8, 4, 4, 13, 0});
  CHECK(tokenizer->encode("dd add dd") == Ids{14, 8, 3, 3, 4, 14});
  CHECK(tokenizer->decode(tokenizer->encode("a<x><e>b")) == "a<x>b");
}

using Ranges = std::vector<tokenizer::TextRange>;

TEST_CASE("a token's range is the characters that it was made of, with the space that it has") {
  auto file = byte_level_file();
  file["model"]["vocab"].update({{"Ã", 10}, {"©", 11}});  // C3 A9
  const auto tokenizer = opened(file);
  const auto encoded = tokenizer->encode_with_ranges("abc ab é");
  CHECK(encoded.ids == tokenizer->encode("abc ab é"));
  CHECK(encoded.ids == Ids{0, 6, 9, 4, 10, 11});
  CHECK(encoded.ranges == Ranges{{0, 1}, {1, 3}, {3, 6}, {6, 7}, {7, 9}, {7, 9}});
  CHECK(tokenizer->encode_with_ranges("").ranges.empty());
  // A part that is no UTF-8 is one character, EF BF BD, whatever it stands for.
  file["model"]["vocab"].update({{"ï", 12}, {"¿", 13}, {"½", 14}});
  CHECK(opened(file)->encode_with_ranges("a\xE2\x82(a").ranges == Ranges{{0, 1}, {1, 3}, {1, 3}, {1, 3}, {4, 5}});
}

TEST_CASE("ranges find back through what a normalizer and metaspaces have changed") {
  const auto tokenizer = opened(sentencepiece_file());
  // "▁ab▁é漢": what is put before the text stands for its first character.
  const auto encoded = tokenizer->encode_with_ranges("ab é漢");
  CHECK(encoded.ids == Ids{9, 5, 3, 4, 0});
  CHECK(encoded.ranges == Ranges{{0, 2}, {2, 3}, {3, 5}, {3, 5}, {5, 8}});
  auto forms = with(byte_level_file(), "/normalizer", json::parse(R"({"type": "Sequence", "normalizers": [
    {"type": "NFC"}, {"type": "Lowercase"}, {"type": "Strip", "strip_left": true, "strip_right": true}]})"));
  forms["model"]["vocab"].update({{"Ã", 10}, {"©", 11}});
  // E with an accent of its own becomes one character, which both of the given ones stand for; A becomes a.
  const auto changed = opened(forms)->encode_with_ranges(
      " AE\xCC\x81"
      "b c");
  CHECK(changed.ids == Ids{0, 10, 11, 1, 4, 2});
  CHECK(changed.ranges == Ranges{{1, 2}, {2, 5}, {2, 5}, {5, 6}, {6, 7}, {7, 8}});
}

TEST_CASE("added tokens have ranges with the white space that they take, and special ones can be left to be text") {
  auto file = byte_level_file();
  file["added_tokens"] = {added_token(12, "<b>", {{"special", true}}), added_token(13, "[l]", {{"lstrip", true}})};
  file["model"]["vocab"].update({{"<", 10}, {">", 11}});
  const auto tokenizer = opened(file);
  const auto encoded = tokenizer->encode_with_ranges("a<b>a  [l]b");
  CHECK(encoded.ids == Ids{0, 12, 0, 13, 1});
  CHECK(encoded.ranges == Ranges{{0, 1}, {1, 4}, {4, 5}, {5, 10}, {10, 11}});
  CHECK(tokenizer->encode_ordinary("a<b>a  [l]b") == Ids{0, 10, 1, 11, 0, 13, 1});
  CHECK(tokenizer->is_special(12));
  CHECK_FALSE(tokenizer->is_special(13));
  CHECK_FALSE(tokenizer->is_special(0));
  CHECK_FALSE(tokenizer->is_special(999));
}

}  // namespace bpe_tokenizer_test
