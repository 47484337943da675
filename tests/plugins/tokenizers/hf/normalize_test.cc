#include "plugins/tokenizers/hf/normalize.h"

#include <capstan_catch.h>

namespace normalize_test {

using namespace hf;
using Kind = NormalizeStep::Kind;

namespace {

std::string normal(Kind kind, const std::string& text) { return normalized({{kind}}, text); }

}  // namespace

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

}  // namespace normalize_test
