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

}  // namespace page_test
