#include "plugins/commands/sweep/child.h"

#include <capstan_catch.h>

#include "support/errors.h"

namespace child_test {

using namespace sweep;

TEST_CASE("a program's output and error are captured together, and its exit code is ours") {
  const auto ended = run_program({"sh", "-c", "echo out; echo err >&2; exit 7"}, true);
  CHECK(ended.code == 7);
  CHECK(ended.said == "out\nerr\n");
  CHECK(run_program({"true"}, false).said.empty());
}

TEST_CASE("arguments reach a program as they are, without a shell") {
  CHECK(run_program({"printf", "%s|", "a b", "$HOME", ""}, true).said == "a b|$HOME||");
}

TEST_CASE("more output than a pipe holds is captured whole") {
  CHECK(run_program({"head", "-c", "300000", "/dev/zero"}, true).said == std::string(300000, '\0'));
}

TEST_CASE("a program that a signal ends has 128 and the signal as its code") {
  CHECK(run_program({"sh", "-c", "kill -TERM $$"}, true).code == 128 + 15);
}

TEST_CASE("a program that cannot be started is named") {
  CHECK_THAT(test::error_of([] { run_program({"/no/such/program"}, true); }),
             Contains("cannot start /no/such/program: "));
}

}  // namespace child_test
