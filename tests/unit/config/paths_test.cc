#include "config/paths.h"

#include <capstan_catch.h>

#include <filesystem>

namespace paths_test {

using namespace capstan::config;

namespace {

Origin in(Origin::Layer layer, const std::string& file) { return {layer, file, 3}; }

}  // namespace

TEST_CASE("a path of a file starts at its folder, any other at the current one, and an empty one is none") {
  const auto here = std::filesystem::current_path();
  const auto file = in(Origin::Layer::file, "/configs/base/a.toml");
  CHECK(absolute_path("../data/x", file) == "/configs/data/x");
  CHECK(absolute_path("config.json", in(Origin::Layer::model_file, "/models/gpt/config.json")) ==
        "/models/gpt/config.json");
  CHECK(absolute_path("/data/./x", file) == "/data/x");
  CHECK(absolute_path("data", in(Origin::Layer::command_line, "/configs/base/a.toml")) == here / "data");
  CHECK(absolute_path("data", in(Origin::Layer::file, "a.toml")) == here / "data");
  CHECK(absolute_path("", file).empty());
}

TEST_CASE("each path of a list becomes absolute, and what is no text stays") {
  const auto file = in(Origin::Layer::file, "/c/a.toml");
  Value list = std::vector<std::string>{"x", "/y", ""};
  make_absolute(list, file);
  CHECK(list == Value(std::vector<std::string>{"/c/x", "/y", ""}));
  Value number = std::int64_t{7};
  make_absolute(number, file);
  CHECK(number == Value(std::int64_t{7}));
}

}  // namespace paths_test
