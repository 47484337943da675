#include <capstan/plugin/registry.h>

#include <capstan_catch.h>

#include "support/errors.h"

namespace registry_test {

using namespace capstan;

TEST_CASE("a registry keeps references valid and refuses a taken name") {
  plugin::Registry registry;
  plugin::Registration one;
  one.kind = "data";
  one.name = "a";
  one.file = "/p/a.so";
  registry.add(one);
  const auto* first = registry.find("data", "a");
  for (int i = 0; i < 100; ++i) {
    auto more = one;
    more.name = "b" + std::to_string(i);
    registry.add(more);
  }
  CHECK(registry.find("data", "a") == first);
  CHECK(first->name == "a");
  CHECK(registry.find("model", "a") == nullptr);
  one.file = "/q/a.so";
  CHECK_THAT(test::error_of([&] { registry.add(one); }),
             Contains("/q/a.so: is a second data plugin 'a'; the first is /p/a.so"));
}

TEST_CASE("while a file registers, what the host knows of it counts, and a second type of one name is refused") {
  plugin::Registry registry;
  plugin::Registration about;
  about.kind = "monitor";
  about.name = "good";
  about.version = "1.2";
  about.summary = "shows";
  about.file = "/p/good.so";
  registry.set_current(about);
  plugin::Registration given;
  given.kind = "data";
  given.name = "claimed";
  given.file = "/elsewhere.so";
  registry.add(given);
  CHECK(registry.find("data", "claimed") == nullptr);
  const auto* good = registry.find("monitor", "good");
  REQUIRE(good != nullptr);
  CHECK((good->version == "1.2" && good->summary == "shows" && good->file == "/p/good.so"));
  try {
    registry.add(given);
    FAIL("the file has registered a type already");
  } catch (const Error& error) {
    const auto& fault = error.diagnostics().front();
    CHECK(fault.where == "/p/good.so");
    CHECK_THAT(fault.what, Contains("more than one type as monitor plugin 'good'"));
    CHECK_FALSE(fault.fix.empty());
  }
  registry.set_current({});
  registry.add(given);
  CHECK(registry.find("data", "claimed")->file == "/elsewhere.so");
  CHECK(registry.all().size() == 2);
}

}  // namespace registry_test
