// Texts that are written and read: nlohmann's ordered_json writes and reads the same.
#include <capstan_catch.h>

#include <string>

#include "random_json.h"

using capstan::Json;
using test::Theirs;

namespace {

std::string text_of(const Theirs& json, int indent) {
  return json.dump(indent, ' ', false, Theirs::error_handler_t::replace);
}

// What ours says of a text, and what theirs says: "ok", "number", or the byte.
std::string verdict(const std::string& text) {
  try {
    Json::parse(text);
    return "ok";
  } catch (const capstan::JsonParseError& error) {
    return error.byte() == 0 ? "number" : std::to_string(error.byte());
  }
}
std::string their_verdict(const std::string& text) {
  try {
    const auto json = Theirs::parse(text);
    return json.is_discarded() ? "discarded" : "ok";
  } catch (const Theirs::parse_error& error) {
    return std::to_string(error.byte);
  } catch (const Theirs::out_of_range&) {
    return "number";
  }
}

}  // namespace

TEST_CASE("random values are written as nlohmann writes them, on one line and indented") {
  test::RandomJson random(1);
  for (int n = 0; n < 3000; ++n) {
    const auto both = random.value(4);
    for (const int indent : {-1, 0, 2}) REQUIRE(both.ours.dump(indent) == text_of(both.theirs, indent));
  }
}

TEST_CASE("random texts are read as nlohmann reads them") {
  test::RandomJson random(2);
  for (int n = 0; n < 3000; ++n) {
    const auto text = text_of(random.value(4).theirs, n % 2 == 0 ? -1 : 1);
    const auto ours = Json::parse(text);
    REQUIRE(ours.dump() == text_of(Theirs::parse(text), -1));
    REQUIRE(Json::parse(ours.dump(2)) == ours);
    REQUIRE(ours.sorted() == ours);
    REQUIRE(ours.sorted().dump() == nlohmann::json::parse(text).dump());
  }
}

TEST_CASE("a text that is broken somewhere is refused at the same byte") {
  test::RandomJson random(3);
  const std::string wrong = "{}[],:\"\\0-+.eEtfnx \x01\xff\xed\xa0\x80";
  for (int n = 0; n < 6000; ++n) {
    auto text = text_of(random.value(3).theirs, -1);
    const auto at = random.below(text.size());
    if (n % 3 == 0) text.erase(at, 1 + random.below(3));
    if (n % 3 == 1) text.insert(at, 1, wrong[random.below(wrong.size())]);
    if (n % 3 == 2) text.resize(at);
    INFO(text);
    REQUIRE(verdict(text) == their_verdict(text));
  }
  for (const std::string text : {"", " ", "1e999", "[-1e999]", "\xEF\xBB\xBF[1]", "[1] x", "[1]\0x", "{\"a\":1,}",
                                 "\"\\ud83d\"", "nul", "// c\n1"})
    REQUIRE(verdict(text) == their_verdict(text));
}

TEST_CASE("numbers at their limits keep their kind and their text") {
  for (const std::string text : {"0", "-0", "-0.0", "1.0", "1e2", "9223372036854775807", "9223372036854775808",
                                 "-9223372036854775808", "-9223372036854775809", "18446744073709551615",
                                 "18446744073709551616", "5e-324", "1.7976931348623157e308", "0.1", "1e15", "1e16"}) {
    const auto ours = Json::parse(text);
    const auto theirs = Theirs::parse(text);
    INFO(text);
    CHECK(ours.dump() == theirs.dump());
    const bool fits = text != "9223372036854775808" && text != "18446744073709551615";  // an int64
    CHECK(ours.is_number_integer() == (theirs.is_number_integer() && fits));
    CHECK(ours.is_number() == theirs.is_number());
    CHECK(ours.is_number_float() == theirs.is_number_float());
    CHECK(ours.is_number_unsigned() == (theirs.is_number_unsigned() || text == "-0"));
    CHECK(ours.get<double>() == theirs.get<double>());
  }
}
