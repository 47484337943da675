// What fits into a terminal's lines.
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "plugins/commands/report/table.h"

namespace text_table_test {

using namespace report;
using capstan::split;

TEST_CASE("a table that fits is not broken") {
  CHECK(fitted_text({{"Run", "Last Loss"}, {"a", "1.5"}}, 20) == "Run  Last Loss\na    1.5\n");
}

TEST_CASE("heads are broken first, and stand on their column") {
  CHECK(fitted_text({{"Run", "Last Loss"}, {"a", "1.5"}}, 12) == "     Last\nRun  Loss\na    1.5\n");
}

TEST_CASE("columns that do not fit beside the others continue below, each row with its name") {
  CHECK(fitted_text({{"Run", "x", "y", "z"}, {"a\u00e4", "1234", "2345", "3456"}}, 15) ==
        "Run  x     y\na\u00e4   1234  2345\n\nRun  z\na\u00e4   3456\n");
}

TEST_CASE("long cells are broken at spaces, and no name is") {
  const std::string path(40, 'p');
  CHECK(fitted_text({{"Metric", "s1"}, {"Job", "capstan run " + path + " -n 2"}}, 60) ==
        "Metric  s1\nJob     capstan run\n        " + path + "\n        -n 2\n");
}

TEST_CASE("no line of a wide table has more than 100 columns, footnotes neither") {
  Table table{"x", "T", {}, {{}, {}}, {std::string(30, 'n') + " " + std::string(80, 'm')}};
  for (int i = 0; i < 20; ++i) {
    table.head.push_back(capstan::cat("Samples/s (Callback) ", i));
    for (auto& row : table.rows) row.push_back(cell("1234.567"));
  }
  for (const auto& line : split(text_of(table), '\n')) {
    INFO(line);
    CHECK(line.size() <= 100);
  }
  CHECK_THAT(text_of(table), Contains("\n      mmm"));
}

}  // namespace text_table_test
