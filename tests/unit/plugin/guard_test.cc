#include "plugin/guard.h"
#include <capstan_catch.h>

#include <new>
#include <stdexcept>

#include "plugin/fixtures.h"

namespace guard_test {

using Catch::Matchers::StartsWith;
using namespace capstan;
using plugin::guard;

TEST_CASE("a guard passes results and references through") {
  int number = 3;
  CHECK(guard("x", "check", [] { return 4; }) == 4);
  CHECK(&guard("x", "check", [&]() -> int& { return number; }) == &number);
  CHECK_NOTHROW(guard("x", "check", [] {}));
}

TEST_CASE("a guard adds plugin and phase to an Error, the innermost first") {
  const auto message = test::error_of(
      [] { guard("outer", "wrap", [] { guard("inner", "shard", [] { throw Error("rank is 0", "set it to 1"); }); }); });
  CHECK(message ==
        "rank is 0\n    fix: set it to 1\n    while plugin 'inner' was in phase shard\n"
        "    while plugin 'outer' was in phase wrap");
}

TEST_CASE("a guard with a registration names the kind too") {
  plugin::Registration registration;
  registration.kind = "strategy";
  registration.name = "fsdp";
  CHECK(test::error_of([&] { guard(registration, "shard", [] { throw Error("no"); }); }) ==
        "no\n    while plugin 'fsdp' (strategy) was in phase shard");
}

TEST_CASE("other exceptions become an Error, and a bug stays a bug") {
  CHECK(test::error_of([] { guard("x", "check", [] { throw std::runtime_error("disk is full"); }); }) ==
        "disk is full\n    while plugin 'x' was in phase check");
  CHECK(test::error_of([] { guard("x", "check", [] { throw std::bad_alloc(); }); }) ==
        "the host has no memory left\n    while plugin 'x' was in phase check");
  const std::string gpu =
      "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 1 GiB free. If reserved but unallocated memory is "
      "large";
  CHECK_THAT(
      test::error_of([&] { guard("x", "forward", [&] { throw std::runtime_error(gpu); }); }),
      StartsWith("this rank's GPU has no memory left: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 1 "
                 "GiB free.\n    fix: `capstan check --gpu`"));
  const std::string host =
      "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 77 bytes. Error code 12\nframe "
      "#0";
  CHECK_THAT(test::error_of([&] { guard("x", "forward", [&] { throw std::runtime_error(host); }); }),
             StartsWith("this host has no memory left: you tried to allocate 77 bytes\n    fix: "));
  try {
    guard("x", "check", [] { CAPSTAN_ASSERT(1 == 2); });
    FAIL("must throw");
  } catch (const std::logic_error& bug) {
    CHECK_THAT(bug.what(), Contains("assertion failed: 1 == 2") && Contains("while plugin 'x' was in phase check"));
  }
  CHECK_THROWS_AS(guard("x", "check", [] { throw 3; }), int);
}

}  // namespace guard_test
