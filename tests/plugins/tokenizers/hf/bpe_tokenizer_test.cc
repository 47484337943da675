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

}  // namespace bpe_tokenizer_test
