#include "plugins/commands/import-deepspeed/deepspeed_json.h"

#include <capstan_catch.h>

#include "support/errors.h"

namespace deepspeed_json_test {

using namespace import_deepspeed;

TEST_CASE("an integer may be written as DeepSpeed writes bucket sizes, as long as a float holds it exactly") {
  for (const char* text : {"500000000", "5e8", "500000000.0", "-3", "9007199254740992"})
    CHECK(has_type(Json::parse(text), JsonType::integer));
  for (const char* text : {"0.5", "9007199254740994", "18446744073709551615", "true", "\"5\""})
    CHECK_FALSE(has_type(Json::parse(text), JsonType::integer));
  CHECK(plain_value(Json::parse("5e8"), JsonType::integer) == capstan::config::Value(std::int64_t{500000000}));
}

TEST_CASE("a number that is written without a point stays an integer") {
  CHECK(plain_value(Json::parse("2"), JsonType::number) == capstan::config::Value(std::int64_t{2}));
  CHECK(plain_value(Json::parse("2.0"), JsonType::number) == capstan::config::Value(2.0));
  CHECK(plain_value(Json::parse("9007199254740994"), JsonType::number) == capstan::config::Value(9007199254740994.0));
}

TEST_CASE("a list of numbers holds nothing else") {
  CHECK(has_type(Json::parse("[0.9, 1]"), JsonType::numbers));
  CHECK_FALSE(has_type(Json::parse("[0.9, \"auto\"]"), JsonType::numbers));
  CHECK_FALSE(has_type(Json::parse("0.9"), JsonType::numbers));
}

TEST_CASE("a key may stand in several tables, and twice in none") {
  capstan::Diagnostics faults;
  parse_deepspeed("ds.json", R"({"a": {"x": 1, "b": {"x": 2}}, "x": 3} // a comment)", faults);
  CHECK(faults.empty());
  parse_deepspeed("ds.json", R"([{"x": 1, "y": 2, "x": 3}])", faults);
  CHECK(faults.size() == 1);
}

TEST_CASE("tables inside of tables end somewhere") {
  capstan::Diagnostics faults;
  const auto nested = [&](std::size_t depth) {
    return test::error_of(
        [&] { parse_deepspeed("ds.json", std::string(depth, '[') + std::string(depth, ']'), faults); });
  };
  CHECK(nested(100).empty());
  CHECK_THAT(nested(200), Contains("ds.json: ") && Contains("is inside of too many others"));
}

}  // namespace deepspeed_json_test
