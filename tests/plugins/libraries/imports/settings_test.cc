#include "imports/settings.h"

#include <capstan_catch.h>

#include "imports/values.h"

namespace settings_test {

using namespace capstan;
using imports::Setting;
using imports::Settings;

TEST_CASE("an option keeps its first value, and a value wins over a comment") {
  Settings settings;
  CHECK(settings.set("train.epochs", Setting{{}, "a", " = 2  # choose"}) == nullptr);
  CHECK(settings.get<std::int64_t>("train.epochs") == std::nullopt);
  CHECK(settings.set("train.epochs", Setting{std::int64_t{3}, "b"}) == nullptr);
  CHECK(settings.set("train.epochs", Setting{std::int64_t{3}, "c"}) == nullptr);
  CHECK(settings.set("train.epochs", Setting{{}, "d", " = 4"}) == nullptr);
  const auto* first = settings.set("train.epochs", Setting{std::int64_t{5}, "e"});
  REQUIRE(first != nullptr);
  CHECK(first->from == "b");
  CHECK(settings.get<std::int64_t>("train.epochs") == 3);
  settings.set_default("train.epochs", std::int64_t{6}, "f");
  CHECK(settings.get<std::int64_t>("train.epochs") == 3);
  settings.replace("train.epochs", Setting{std::int64_t{7}, "g"});
  settings.replace("train.absent", Setting{std::int64_t{7}, "g"});
  CHECK(settings.get<std::int64_t>("train.epochs") == 7);
  CHECK(settings.find("train.absent") == nullptr);
}

TEST_CASE("tables are printed in the order of their first options, with the plugin first") {
  Settings settings;
  settings.set("b.x", Setting{true, "from\nhere"});
  settings.set("a.y.z", Setting{{}, "", " = 1  # choose"});
  settings.set("b.plugin", Setting{"p", "there"});
  settings.set("b.gone", Setting{1.5, "there"});
  CHECK(settings.drop("b.gone")->from == "there");
  CHECK_FALSE(settings.drop("b.gone").has_value());
  CHECK(settings.tables() == std::vector<std::string>{"b", "a.y"});
  CHECK(settings.is_open("a.y"));
  CHECK_FALSE(settings.is_open("b"));
  CHECK(settings.table_text("b", "[b]") == "\n[b]\nplugin = \"p\"  # there\nx = true  # from?here\n");
  CHECK(settings.table_text("a.y", "# [a.y]") == "\n# [a.y]\n# z = 1  # choose\n");
}

TEST_CASE("notes are comments of a line each") {
  Settings settings;
  CHECK(settings.notes_text().empty());
  settings.note("one\n[table]");
  settings.note("two");
  CHECK(settings.notes_text() == "\n# one?[table]\n# two\n");
}

TEST_CASE("an unknown key's fix is the nearest known one") {
  CHECK(imports::unknown_fix("lora_rr", {"lora_r", "adapter"}) == "did you mean 'lora_r'?");
  CHECK(imports::unknown_fix("surprise", {"lora_r"}) == "remove it if it does not change the training");
}

TEST_CASE("lists hold one kind of value") {
  using imports::JsonType;
  CHECK(imports::has_type(Json::parse(R"(["a", "b"])"), JsonType::texts));
  CHECK_FALSE(imports::has_type(Json::parse(R"(["a", 1])"), JsonType::texts));
  CHECK(imports::plain_value(Json::parse(R"(["a"])"), JsonType::texts) == config::Value(std::vector<std::string>{"a"}));
  CHECK(imports::type_words(JsonType::texts) == "a list of strings");
}

}  // namespace settings_test
