#include <capstan_catch.h>

#include "plugins/commands/reference/reference.h"

namespace files_test {

using namespace capstan;

TEST_CASE("the tables of other programs' files: each once, keys of one fate in a row, a model's options and defaults") {
  using config::FileKey;
  using config::FileKeys;
  plugin::Registration tiny, small;
  tiny.kind = small.kind = "model";
  tiny.name = "tiny";
  small.name = "small";
  config::OptionSpec width;
  width.key = "width";
  width.spellings = {"hidden_size"};
  tiny.schema.push_back(width);
  const FileKeys shared{"a.json",
                        "Another program writes it.",
                        {{"a", FileKey::Use::neutral, "speed"},
                         {"b", FileKey::Use::only, "take another", {"false", "0"}},
                         {"c", FileKey::Use::neutral, "speed"},
                         {"d.e", FileKey::Use::refused, "x | y"}},
                        FileKeys::Unknown::named};
  tiny.file_keys = {shared, {"config.json of tiny", "Its own.", {{"width", FileKey::Use::neutral, "Capstan's"}}}};
  small.file_keys = {shared};
  tiny.file_defaults = {{"tiny", {{"width", std::int64_t{3}}}}};
  const auto text =
      reference::files_markdown({{"model", "tiny", "tiny.so", "", &tiny}, {"model", "small", "small.so", "", &small}});
  CHECK_THAT(text, Contains("\n## a.json\n\nAnother program writes it. Read by `small`, `tiny`. Unknown keys are named "
                            "once in a warning.\n\n| keys | are | why, or what to do |\n|---|---|---|\n"
                            "| `a`, `c` | changes nothing | speed |\n"
                            "| `b` | only `false`, `0` | take another |\n"
                            "| `d.e` | refused | x \\| y |\n"));
  CHECK(text.find("## a.json") == text.rfind("## a.json"));
  CHECK_THAT(text, Contains("Its own. Read by `tiny`. Unknown keys are refused."));
  CHECK_THAT(text, Contains("\n## Options of `tiny` in a config.json\n\n| option | in config.json |\n|---|---|\n"
                            "| `width` | `hidden_size` |\n\nWhere a `tiny` file leaves a key out, transformers takes: "
                            "`width = 3`.\n"));
}

}  // namespace files_test
