#include "cli/commands.h"

#include <capstan_catch.h>

using namespace capstan;

TEST_CASE("a slip in a command's name and a command that is not installed are told apart") {
  const std::vector<std::string> names{"run", "check", "report"};
  CHECK(cli::fix_of_unknown("chek", names) == "did you mean 'check'?");
  CHECK_THAT(cli::fix_of_unknown("memory", names),
             Contains("this installation lacks") && Contains("capstan/plugins/command/memory.so"));
}
