#include "plugins/commands/report/page.h"

#include <capstan_catch.h>

#include "support/run_folders.h"

namespace page_test {

using namespace report;
using namespace runs;
using namespace test;

TEST_CASE("a page needs nothing but itself") {
  const test::Folder folder;
  const auto runs = read_runs({make_run(folder, "a")});
  const auto page = page_of("Runs", {}, runs, runs[0]);
  CHECK_THAT(page, Contains("<!doctype html>") && Contains("prefers-color-scheme: dark") && Contains("Training loss"));
  for (const auto* outside : {"http://", "https://", "<script", "src=", "@import", "url("}) {
    INFO(outside);
    CHECK(page.find(outside) == std::string::npos);
  }
}

TEST_CASE("definitions are folded below the plots, and the legend says which lines are the same") {
  const test::Folder folder;
  const auto runs = read_runs({make_run(folder, "a"), make_run(folder, "b")});
  const Table table{"runs", "Runs", {"Run"}, {{cell("a")}}, {"Loss: the mean"}};
  const auto page = page_of("Runs", {table, table}, runs, runs[0]);
  const auto definition =
      page.find("<details><summary>What the columns mean</summary>\n<ul class=\"notes\">\n<li>Loss: ");
  REQUIRE(definition != std::string::npos);
  CHECK(definition > page.rfind("</figure>"));
  CHECK(page.find("Loss: the mean", definition + 100) == std::string::npos);
  CHECK_THAT(page, Contains(" b, on the line of a</li>"));
}

}  // namespace page_test
