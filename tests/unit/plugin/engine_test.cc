#include "plugin/engine.h"

#include <capstan_catch.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace engine_test {

using namespace capstan;

namespace {
constexpr int opened = 7;  // the exit code; 0 is Catch's where it finds no such case
}  // namespace

// In a process of its own: the engine never leaves the process that has opened it.
TEST_CASE("child: opens the engine", "[.child]") {
  const bool before = plugin::engine_is_there();
  const auto& engine = plugin::open_engine();
  std::_Exit(!before && plugin::engine_is_there() && &plugin::open_engine() == &engine ? opened : 1);
}

TEST_CASE("the engine is not in a program until it is asked for, and then once") {
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl("/proc/self/exe", "test_plugin", "child: opens the engine", nullptr);
    ::_exit(2);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == opened);
}

}  // namespace engine_test
