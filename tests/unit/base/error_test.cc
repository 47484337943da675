#include <capstan/base/error.h>
#include <capstan_catch.h>

namespace error_test {

using namespace capstan;

TEST_CASE("an error shows where, what, fix and the way it travelled") {
  Error error("rank is 0", "set it to 1 or more", "a.toml:3");
  error.add_context("checking strategy lora").add_context("setting up rank 2");
  CHECK(std::string(error.what()) ==
        "a.toml:3: rank is 0\n    fix: set it to 1 or more\n    while checking strategy lora\n    while setting up "
        "rank 2");
}

TEST_CASE("the same fault at several places is said once, with the first of them and a count") {
  Diagnostics diagnostics;
  for (int line = 1; line <= 3; ++line) diagnostics.add("a.jsonl:" + std::to_string(line), "has no turn", "set one");
  diagnostics.add("b.toml:1", "another");
  CHECK(std::string(Error(diagnostics.list()).what()) ==
        "a.jsonl:1: has no turn\n    also at a.jsonl:2, a.jsonl:3\n    fix: set one\nb.toml:1: another");
  for (int line = 4; line <= 21; ++line) diagnostics.add("a.jsonl:" + std::to_string(line), "has no turn", "set one");
  diagnostics.add("a.jsonl:2", "has no turn", "set one");   // said before
  diagnostics.add("a.jsonl:9", "has no turn", "unset it");  // another fix is another fault
  const Error error(diagnostics.list());
  CHECK(std::string(error.what()) ==
        "a.jsonl:1: has no turn\n    also at a.jsonl:2, a.jsonl:3, a.jsonl:4 and 17 more places\n    fix: set one\n"
        "b.toml:1: another\na.jsonl:9: has no turn\n    fix: unset it");
  CHECK(error.diagnostics().size() == diagnostics.size());
}

TEST_CASE("a fault without a place is said once") {
  const Error error({{"", "no room", ""}, {"", "no room", ""}, {"a:1", "no room", ""}});
  CHECK(std::string(error.what()) == "no room\n    also at a:1");
}

TEST_CASE("diagnostics are thrown together, and not at all when there are none") {
  Diagnostics diagnostics;
  CHECK_NOTHROW(diagnostics.throw_if_any());
  diagnostics.add("a:1", "first");
  diagnostics.add("a:2", "second", "repair it");
  try {
    diagnostics.throw_if_any();
    FAIL("must throw");
  } catch (const Error& error) {
    CHECK(error.diagnostics().size() == 2);
    CHECK(std::string(error.what()) == "a:1: first\na:2: second\n    fix: repair it");
  }
}

}  // namespace error_test
