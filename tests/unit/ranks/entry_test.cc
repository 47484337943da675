// The engine as its entry shows it, in a program that is linked with it.
#include <capstan/command/command.h>
#include <capstan/plugin/host.h>
#include <capstan_catch.h>

#include <ATen/ATen.h>

#include <stdexcept>

#include "plugin/engine.h"

namespace entry_test {

using namespace capstan;

namespace {

struct Asks final : command::Command {
  int run(const command::Call&) override {
    return static_cast<int>(at::empty({std::int64_t{1} << 50}, at::kFloat).numel());
  }
};

struct Asserts final : command::Command {
  int run(const command::Call&) override {
    TORCH_CHECK(false, "no such thing");
    return 0;
  }
};

struct Refuses final : command::Command {
  int run(const command::Call&) override { throw Error("known"); }
};

struct Returns final : command::Command {
  int run(const command::Call&) override { return 7; }
};

template <class Class>
int called() {
  plugin::Host host;
  Class command;
  return plugin::open_engine().call(command, {"mine", "", {}, {}, host});
}

}  // namespace

TEST_CASE("a program that is linked with the engine has one, and nothing of LibTorch's is thrown out of it") {
  CHECK(plugin::engine_is_there());
  CHECK(&plugin::open_engine() == &plugin::open_engine());
  CHECK_THROWS_WITH(called<Asks>(), Contains("this host has no memory left: you tried to allocate"));
  CHECK_THROWS_AS(called<Asks>(), Error);
  CHECK_THROWS_AS(called<Asserts>(), std::logic_error);
  CHECK_THROWS_WITH(called<Asserts>(), Contains("no such thing"));
  CHECK_THROWS_AS(called<Refuses>(), Error);
  CHECK(called<Returns>() == 7);
}

}  // namespace entry_test
