#include "my_plugin.h"

#include <capstan/base/exit_code.h>
#include <capstan/plugin/host.h>
#include <capstan_catch.h>

using namespace my_plugin_plugin;

TEST_CASE("steps are the lines with a gradient norm") {
  CHECK(steps_in("{\"step\":1,\"grad_norm\":0.5}\n{\"step\":1,\"eval/loss\":2}\n{\"step\":2,\"grad_norm\":0.4}\n") ==
        2);
  CHECK(steps_in("") == 0);
}

TEST_CASE("a call without a run is refused") {
  capstan::plugin::Host plugins;
  CHECK(count_steps({"my_plugin", "", {}, {}, plugins}) == static_cast<int>(capstan::ExitCode::usage));
  CHECK(count_steps({"my_plugin", "", {"--help"}, {}, plugins}) == 0);
}
