#include "plugins/monitors/csv/module.cc"

#include <capstan_catch.h>

#include "support/errors.h"
#include "support/options.h"

namespace module_test {

TEST_CASE("the table is a file of the run's folder, and none of the run's own") {
  const auto refusal = [](const std::string& name) {
    return test::error_of([&] {
      const csv::Csv made(capstan::testing::options_of<csv::CsvOptions>("monitor.csv", {{"file", name}}));
    });
  };
  CHECK(refusal("table.csv").empty());
  CHECK(refusal("/etc/passwd") ==
        "a.toml:2: monitor.csv.file is \"/etc/passwd\", which is a path\n    fix: give the name of a file in the run's "
        "folder, such as \"table.csv\"");
  CHECK_THAT(refusal("../../x.csv"), Contains("which is a path"));
  CHECK_THAT(refusal("config.toml"), Contains("which the run gives to a file of its own"));
  CHECK_THAT(refusal("metrics.jsonl"), Contains("which the run gives to a file of its own"));
}

}  // namespace module_test
