#include <capstan/base/error.h>
#include <capstan_catch.h>

using namespace capstan;

TEST_CASE("an error shows where, what, fix and the way it travelled") {
  Error error("rank is 0", "set it to 1 or more", "a.toml:3");
  error.add_context("checking strategy lora").add_context("setting up rank 2");
  CHECK(std::string(error.what()) ==
        "a.toml:3: rank is 0\n    fix: set it to 1 or more\n    while checking strategy lora\n    while setting up "
        "rank 2");
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
