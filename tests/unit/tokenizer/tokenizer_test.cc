#include "tokenizer/tokenizers.h"
#include "tokenizer/utf8.h"

#include <capstan/base/error.h>
#include <capstan_catch.h>

using namespace capstan;
using tokenizer::repair_utf8;

TEST_CASE("the byte tokenizer gives bytes and takes them back") {
  const auto tokenizer = tokenizer::make_tokenizer("byte");
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
  const auto tokenizer = tokenizer::make_tokenizer("byte");
  CHECK(tokenizer->decode({97, 256, 257, 98}) == "ab");
  CHECK(tokenizer->decode({97, 258, 98}) == "a\uFFFDb");
  CHECK(tokenizer->decode({97, -1, 49999}) == "a\uFFFD\uFFFD");
  CHECK(tokenizer->decode({97, 0xC3, 98}) == "a\uFFFDb");
}

TEST_CASE("an unknown tokenizer is refused with the nearest name") {
  CHECK_THROWS_WITH(tokenizer::make_tokenizer("bytes"), "there is no tokenizer 'bytes'\n    fix: did you mean 'byte'?");
  CHECK_THROWS_WITH(tokenizer::make_tokenizer("sentencepiece"), Contains("one of: auto, byte"));
}

TEST_CASE("each maximal ill-formed part becomes one U+FFFD") {
  CHECK(repair_utf8("plain é 漢 😀") == "plain é 漢 😀");
  CHECK(repair_utf8("\x80\xBF") == "\uFFFD\uFFFD");                      // continuation bytes alone
  CHECK(repair_utf8("\xC0\xAF") == "\uFFFD\uFFFD");                      // overlong, two bytes
  CHECK(repair_utf8("\xE0\x80\x80") == "\uFFFD\uFFFD\uFFFD");            // overlong, three bytes
  CHECK(repair_utf8("\xED\xA0\x80") == "\uFFFD\uFFFD\uFFFD");            // a surrogate
  CHECK(repair_utf8("\xF4\x90\x80\x80") == "\uFFFD\uFFFD\uFFFD\uFFFD");  // after U+10FFFF
  CHECK(repair_utf8("\xF1\x80\x80\xE1\x80\xC2") == "\uFFFD\uFFFD\uFFFD");
  CHECK(repair_utf8("a\xF0\x9F\x98") == "a\uFFFD");  // cut off at the end
  CHECK(repair_utf8("\xF0\x9F\x98z") == "\uFFFDz");
  CHECK(repair_utf8("\xF5\xFF") == "\uFFFD\uFFFD");
  CHECK(repair_utf8("\xEF\xBF\xBF\xF4\x8F\xBF\xBF") == "\xEF\xBF\xBF\xF4\x8F\xBF\xBF");  // the last characters
}
