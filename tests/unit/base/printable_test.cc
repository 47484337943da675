// What files put into messages, and files that are none.
#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "support/errors.h"

namespace printable_test {

using namespace capstan;

TEST_CASE("control characters and what is no UTF-8 are shown as text") {
  CHECK(printable("a\033[31mb") == "a\\x1b[31mb");
  CHECK(printable("a\nb\tc\r") == "a\\nb\\tc\\x0d");
  CHECK(printable("\u009b"
                  "1m\x7f") == "\\u009b1m\\u007f");  // what some terminals take for ESC [
  // NOLINTNEXTLINE(misc-misleading-bidirectional): they are what is tested
  CHECK(printable("a\u202eb\u2066c\u200f\u061c\u2028") == "a\\u202eb\\u2066c\\u200f\\u061c\\u2028");
  CHECK(printable("\u200c\u200d") == "\u200c\u200d");  // joiners are letters' own
  CHECK(printable("\xff\xc0\xaf") == "\\xff\\xc0\\xaf");
  CHECK(printable("Grüße, 世界 😀") == "Grüße, 世界 😀");
  CHECK(printable(std::string_view("\0", 1)) == "\\x00");
  CHECK(is_utf8("Grüße"));
  CHECK_FALSE(is_utf8("\xed\xa0\x80"));  // a surrogate
  CHECK_FALSE(is_utf8("Gr\xfc"));
}

TEST_CASE("a name of a file cannot forge a message of its own") {
  const Error error("question 'x\ncapstan: all checks passed\033[2K' is too long", "take it out", "a\nb.json");
  CHECK(std::string(error.what()) ==
        "a\\nb.json: question 'x\n    capstan: all checks passed\\x1b[2K' is too long\n    fix: take it out");
  CHECK(table_text({{"name"}, {"a\n\033c"}}) == "name\na\\n\\x1bc\n");
}

TEST_CASE("no name is near to one of a million letters") {
  CHECK(nearest_name(std::string(1000000, 'a'), {std::string(1000000, 'a')}).empty());
}

}  // namespace printable_test
