#include "ranks/check_command.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan_catch.h>

#include "support/folder.h"

namespace check_command_test {

using namespace capstan;

namespace {

Diagnostic refusal(const launch::CheckArguments& arguments) {
  try {
    ranks::check_command(arguments, launch::environment({}));
  } catch (const Error& error) {
    return error.diagnostics().front();
  }
  return {};
}

}  // namespace

TEST_CASE("check: ranks that do not spread evenly over the nodes are refused with numbers that do") {
  launch::CheckArguments arguments;
  arguments.config = "/none.toml";
  arguments.ranks = 6;
  arguments.nodes = 4;
  const auto fault = refusal(arguments);
  CHECK_THAT(fault.what, Contains("--nodes 4") && Contains("6 ranks"));
  CHECK_THAT(fault.fix, Contains("--ranks 8"));
  arguments.nodes = 3;
  CHECK(refusal(arguments).where == "/none.toml");
}

TEST_CASE("check: --resolved never replaces the configuration that it is made from, by whatever name") {
  const test::Folder folder;
  const std::string text = "[run]\ndevice = \"cpu\"\n";
  launch::CheckArguments arguments;
  arguments.config = folder.write("a.toml", text);
  std::filesystem::create_symlink("a.toml", folder / "link.toml");
  for (const auto* name : {"a.toml", "link.toml"}) {
    arguments.resolved = (folder / name).string();
    const auto fault = refusal(arguments);
    CHECK(fault.where == arguments.resolved);
    CHECK_FALSE(fault.fix.empty());
  }
  CHECK(read_file(folder / "a.toml") == text);
}

}  // namespace check_command_test
