#include "plugin/hints.h"

#include <capstan_catch.h>
#include <capstan_places.h>

#include "plugin/abi.h"
#include "plugin/fixtures.h"

namespace hints_test {

using namespace capstan;
using namespace capstan::plugin;

namespace {

Error unknown(const std::string& option, const std::string& table = {}, std::vector<Diagnostic> inside = {}) {
  return Error({{"a.toml:1", "it is unknown", "one of: a, b", option, table, std::move(inside)}});
}

}  // namespace

TEST_CASE("a file says whether its plugin has hints") {
  CHECK_FALSE(read_note(test::fixture("hinting"), Note::hints).empty());
  CHECK(read_note(test::fixture("good"), Note::hints).empty());
  CHECK_THROWS_AS(read_note(test::fixture("none"), Note::hints), Error);
}

TEST_CASE("what plugins know of a name that is unknown is the fault's fix") {
  Host host({test::fixture_folder()});
  CHECK(
      std::string(with_hints(unknown("how_many"), host).what()) ==
      "a.toml:1: it is unknown\n    fix: did you mean 'monitor.hinting.size'? (Thinger's things.how_many; at most 8)");
  // It was opened for its hints, and no file that has none.
  CHECK(host.registry().find("monitor", "hinting"));
  CHECK_FALSE(host.registry().find("monitor", "good"));
  CHECK(with_hints(unknown("things.colour"), host).diagnostics().front().fix ==
        "not needed, Thinger's things.colour: things have none");
  CHECK(with_hints(unknown("monitor.hinting.size"), host).diagnostics().front().fix == "one of: a, b");
  CHECK(with_hints(unknown("nobody's"), host).diagnostics().front().fix == "one of: a, b");
}

TEST_CASE("an error names those of an unknown table's options that a plugin knows") {
  Host host({test::fixture_folder()});
  const auto error = with_hints(
      unknown("", "things",
              {{"a.toml:2", "unknown", "", "things.how_many"}, {"a.toml:3", "unknown", "", "things.surprise"}}),
      host);
  REQUIRE(error.diagnostics().size() == 2);
  CHECK(error.diagnostics()[0].fix == "it is Thinger's");
  CHECK(error.diagnostics()[1].where == "a.toml:2");
}

TEST_CASE("a table that is nearly a command's is said to be that") {
  Host host({std::filesystem::path(CAPSTAN_BINARY_DIR) / "tests/run_fixtures"});
  CHECK(with_hints(unknown("", "gatte"), host).diagnostics().front().fix == "did you mean [gate]?");
  CHECK(with_hints(unknown("", "echho"), host).diagnostics().front().fix == "one of: a, b");  // echo has no table
  CHECK_FALSE(host.registry().find("command", "gate"));
}

TEST_CASE("where no name is unknown, and where no plugin has hints, an error stays as it is") {
  Host host({test::fixture_folder()});
  Error other("broken", "repair it", "a.toml");
  other.add_context("reading it");
  CHECK(std::string(with_hints(other, host).what()) == other.what());
  CHECK(host.registry().all().empty());
  const test::Folder empty;
  Host none({empty.path()});
  auto plain = unknown("nobody's");
  plain.add_context("reading it");
  CHECK(std::string(with_hints(plain, none).what()) == plain.what());
}

}  // namespace hints_test
