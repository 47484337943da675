#include <capstan/base/log.h>

#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "support/file_limit.h"
#include "support/folder.h"

namespace log_test {

using namespace capstan;
using namespace std::chrono_literals;

TEST_CASE("the log keeps lines for which its disk has no room") {
  const test::Folder folder;
  const auto path = (folder / "log").string();
  log::configure(path, log::Level::error, 0);
  log::info("first");
  {
    const test::FileLimit limit(100);
    for (int i = 0; i < 5; ++i) log::info(cat("line ", i));
    CHECK_THAT(log::finish(0ms), Contains(path + ": ") && Contains("could not be written: File too large"));
  }
  CHECK(log::finish(0ms).empty());
  log::configure("", log::Level::warning, 0);
  const auto lines = split(trim(read_file(path)), '\n');
  REQUIRE(lines.size() == 6);
  CHECK_THAT(lines[5], Contains("info: line 4"));
}

TEST_CASE("the log's file has lines of every level with their rank, and no line can forge another") {
  const test::Folder folder;
  const auto path = (folder / "log").string();
  log::configure(path, log::Level::error, 3);
  log::debug("quiet");
  log::warning("one\x1b[2J");
  log::configure("", log::Level::warning, 0);
  const auto lines = split(trim(read_file(path)), '\n');
  REQUIRE(lines.size() == 2);
  CHECK_THAT(lines[0], Contains(" [rank 3] debug: quiet"));
  CHECK_THAT(lines[1], Contains(" [rank 3] warning: one") && !Contains("\x1b"));
}

}  // namespace log_test
