#include "plugins/commands/reference/filter.h"

#include <capstan_catch.h>

#include "fixtures/common.h"
#include "support/errors.h"

namespace filter_test {

using namespace capstan;

TEST_CASE("words choose the options that have them in their table, name or meaning") {
  plugin::Registration good, tiny;
  good.kind = "monitor";
  good.name = "good";
  good.schema = config::Options<fixture::ThingOptions>::schema();
  tiny.kind = "model";
  tiny.name = "tiny";
  tiny.schema = good.schema;
  const std::vector<plugin::Found> found{{"monitor", "good", "good.so", "", &good},
                                         {"monitor", "broken", "broken.so", "has no entry"},
                                         {"model", "tiny", "tiny.so", "", &tiny}};
  config::OptionSpec path;
  path.key = "path";
  path.required = true;
  path.doc = "a folder, which need not exist";
  const auto chosen = [&](const std::vector<std::string>& words) {
    return reference::matching({{"run", {path}}}, found, words);
  };
  const std::string mode = "  mode (string, default \"fast\"): how well; one of \"fast\", \"exact\"\n";
  const std::string size = "  size (integer, default 3): how many; between 1 and 8\n";
  CHECK(chosen({"MODE"}) == "[model] plugin = \"tiny\"\n" + mode + "\n[monitor.good]\n" + mode);
  CHECK(chosen({"monitor"}) == "[monitor.good]\n" + size + mode);
  CHECK(chosen({"how", "tiny", "many"}) == "[model] plugin = \"tiny\"\n" + size);
  CHECK(chosen({"monitor.good.mo"}) == "[monitor.good]\n" + mode);
  CHECK(chosen({"need not"}) == "[run]\n  path (string, required): a folder, which need not exist\n");
  CHECK(test::error_of([&] { chosen({"moed"}); }) ==
        "no option has moed in its table, name or meaning\n    fix: did you mean 'mode'?");
  CHECK(test::error_of([&] {
          chosen({"mode", "folder"});
        }) == "no option has all of mode, folder in its table, name or meaning\n    fix: give fewer words");
}

}  // namespace filter_test
