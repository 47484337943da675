#include <capstan_catch.h>

#include "support/tokenizer_files.h"

namespace byte_tokenizer_test {

TEST_CASE("the byte tokenizer gives bytes and takes them back") {
  const auto tokenizer = open_tokenizer("byte");
  CHECK(tokenizer->name() == "byte");
  CHECK(tokenizer->vocab_size() == 258);
  CHECK(tokenizer->end_id() == 256);
  CHECK(tokenizer->pad_id() == 257);
  CHECK(tokenizer->encode("aé") == std::vector<std::int64_t>{97, 0xC3, 0xA9});
  CHECK(tokenizer->encode("").empty());
  const std::string text = "Ünïcode, 漢字 and 😀\n";
  CHECK(tokenizer->decode(tokenizer->encode(text)) == text);
}

TEST_CASE("special ids give no text, unknown ids and ill-formed bytes give U+FFFD") {
  const auto tokenizer = open_tokenizer("byte");
  CHECK(tokenizer->decode({97, 256, 257, 98}) == "ab");
  CHECK(tokenizer->decode({97, 258, 98}) == "a\uFFFDb");
  CHECK(tokenizer->decode({97, -1, 49999}) == "a\uFFFD\uFFFD");
  CHECK(tokenizer->decode({97, 0xC3, 98}) == "a\uFFFDb");
}

TEST_CASE("ranges of bytes are their characters', and no text makes a special id") {
  const auto tokenizer = open_tokenizer("byte");
  using Range = capstan::tokenizer::TextRange;
  const auto encoded = tokenizer->encode_with_ranges("aé\xC3(");
  CHECK(encoded.ids == tokenizer->encode("aé\xC3("));
  CHECK(encoded.ranges == std::vector<Range>{{0, 1}, {1, 3}, {1, 3}, {3, 4}, {4, 5}});
  CHECK(tokenizer->encode_ordinary("ab") == tokenizer->encode("ab"));
  CHECK(tokenizer->is_special(256));
  CHECK(tokenizer->is_special(257));
  CHECK_FALSE(tokenizer->is_special('a'));
  CHECK_FALSE(tokenizer->is_special(-1));
}

}  // namespace byte_tokenizer_test
