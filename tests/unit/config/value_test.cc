#include <capstan/config/value.h>
#include <capstan_catch.h>

#include <limits>

namespace value_test {

using namespace capstan::config;

TEST_CASE("values are written as TOML writes them") {
  CHECK(value_text(Value()) == "-");
  CHECK(value_text(true) == "true");
  CHECK(value_text(std::int64_t{-3}) == "-3");
  CHECK(value_text(1.0) == "1.0");
  CHECK(value_text(1e-5) == "1e-05");
  CHECK(value_text(-0.0) == "-0.0");
  CHECK(value_text(std::numeric_limits<double>::infinity()) == "inf");
  CHECK(value_text(std::string("a\"b\\c\n\t\x01")) == R"("a\"b\\c\n\t\u0001")");
  CHECK(value_text(std::vector<std::int64_t>{1, 2}) == "[1, 2]");
  CHECK(value_text(std::vector<double>{1, 0.5}) == "[1.0, 0.5]");
  CHECK(value_text(std::vector<std::string>{"a", "b"}) == R"(["a", "b"])");
  CHECK(value_text(std::vector<std::string>{}) == "[]");
}

TEST_CASE("an origin says where to look") {
  using Layer = Origin::Layer;
  CHECK(Origin{}.text() == "default");
  CHECK(Origin{Layer::preset, "", 0}.text() == "preset");
  CHECK(Origin{Layer::command_line, "", 0}.text() == "command line");
  CHECK(Origin{Layer::file, "configs/a.toml", 12}.text() == "configs/a.toml:12");
  CHECK(Origin{Layer::file, "configs/a.toml", 0}.text() == "configs/a.toml");
  CHECK(Origin{Layer::model_file, "model/config.json", 0}.text() == "model/config.json");
}

}  // namespace value_test
