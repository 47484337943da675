#include "plugins/commands/reference/reference.h"

#include <capstan_catch.h>

#include "fixtures/common.h"

namespace reference_test {

using namespace capstan;
using plugin::Found;

TEST_CASE("the reference shows host tables, host options of each kind, and plugins, and no path of this machine") {
  const auto one = [](const std::string& name) {
    plugin::Registration about;
    about.kind = "monitor";
    about.name = name;
    about.summary = "a plugin for tests";
    about.file = "/here/" + name + ".so";
    about.schema = config::Options<fixture::ThingOptions>::schema();
    return about;
  };
  const auto stripped = one("stripped"), good = one("good");
  // Out of order, as folders may be.
  const std::vector<Found> found{{"monitor", "stripped", stripped.file, "", &stripped},
                                 {"monitor", "broken", "/here/broken.so", "has no entry"},
                                 {"monitor", "good", good.file, "", &good}};
  config::OptionSpec path;
  path.key = "path";
  path.required = true;
  path.is_path = true;
  path.doc = "a | b";
  config::OptionSpec seed;
  seed.key = "seed";
  seed.type = config::Type::integer;
  const auto text = reference::markdown(
      {{"train", config::Options<fixture::ThingOptions>::schema()}, {"run", {path, seed}}, {"comm", {}}}, found);
  CHECK_THAT(text, Contains("\n## [train]\n\n| option | type | default | meaning |\n|---|---|---|---|\n"
                            "| `size` | integer | `3` | how many; between 1 and 8 |\n"
                            "| `mode` | string | `\"fast\"` | how well; one of \"fast\", \"exact\" |\n"));
  CHECK_THAT(text, Contains("| `path` | string, path | required | a \\| b |\n| `seed` | integer | not set |  |\n"));
  CHECK_THAT(text, Contains("\n## [comm]\n\nIt has no options.\n"));
  CHECK_THAT(text, Contains("\n## [model]\n") && Contains("| `plugin` | string | required |"));
  CHECK_THAT(text, Contains("\n## [optimizer]\n\nOne plugin, adamw where none is named; its own options") &&
                       Contains("| `plugin` | string | `\"adamw\"` |"));
  CHECK_THAT(text, Contains("\n## [tokenizer]\n\nA plugin, for what data.tokenizer cannot name; its own options"));
  CHECK_THAT(text, Contains("\n## [strategy.NAME]\n") && Contains("| `enabled` | boolean | `true` |"));
  CHECK_THAT(text, Contains("\n### [monitor.good]\n\na plugin for tests\n\n| option |"));
  CHECK_THAT(text, !Contains("/here/") && !Contains("broken"));
  CHECK(text.find("monitor.good]") < text.find("monitor.stripped]"));
}

TEST_CASE("the reference lists a model's presets by name") {
  plugin::Registration tiny;
  tiny.kind = "model";
  tiny.name = "tiny";
  tiny.summary = "small";
  tiny.presets = {{"tiny-2", {}}, {"tiny-1", {}}};
  CHECK_THAT(reference::markdown({}, {{"model", "tiny", "tiny.so", "", &tiny}}),
             Contains("small\n\nPresets: `tiny-1`, `tiny-2`.\n\nIt has no options.\n"));
}

}  // namespace reference_test
