#include <capstan/tokenizer/utf8.h>
#include <capstan_catch.h>

namespace utf8_test {

using capstan::tokenizer::repair_utf8;

TEST_CASE("each maximal ill-formed part becomes one U+FFFD") {
  CHECK(repair_utf8("plain é 漢 😀") == "plain é 漢 😀");
  CHECK(repair_utf8("\x80\xBF") == "\uFFFD\uFFFD");                      // only continuation bytes
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

}  // namespace utf8_test
