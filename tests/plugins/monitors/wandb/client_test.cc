#include "plugins/monitors/wandb/client.h"

#include <capstan/base/error.h>
#include <capstan_catch.h>

#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "support/folder.h"

namespace client_test {

using namespace capstan;
using namespace wandb;

namespace {

// What is said where this program stands for the Python that is asked.
std::string said_of(const std::string& python, bool by_option = true) {
  config::Section section{"monitor.wandb", {}, {{"python", python, {config::Origin::Layer::file, "a.toml", 3}}}};
  if (by_option) section.entries.push_back({"mode", std::string("online"), {config::Origin::Layer::file, "a.toml", 2}});
  Diagnostics none, found;
  const config::Options<WandbOptions> options(section, none);
  REQUIRE(none.empty());
  check_client(options, found);
  try {
    found.throw_if_any();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string said(const test::Folder& folder, const std::string& script, bool by_option = true) {
  const auto program = folder.write("python", "#!/bin/sh\n" + script);
  ::chmod(program.c_str(), 0700);
  return said_of(program, by_option);
}

}  // namespace

TEST_CASE("what a run needs to be online, and is not there, is refused with what to do") {
  const test::Folder folder;
  CHECK(said(folder, "echo '{\"lacks\": \"\", \"why\": \"api.wandb.ai\"}'") == "");
  const test::Folder second;
  CHECK_THAT(said(second, R"(echo '{"lacks": "wandb", "why": "No module named wandb"}')"),
             Contains("a.toml:2") && Contains("monitor.wandb.mode is \"online\", and ") &&
                 Contains("has no wandb that can be used (No module named wandb)") && Contains("pip install wandb") &&
                 Contains("monitor.wandb.mode = \"offline\""));
  const test::Folder third;
  CHECK_THAT(said(third, R"(echo '{"lacks": "key", "why": "api.wandb.ai"}')"),
             Contains("there is no API key for api.wandb.ai") && Contains("wandb login"));
  const test::Folder fourth;
  CHECK_THAT(said(fourth, R"(echo '{"lacks": "version", "why": "0.12"}')"), Contains("older than 0.20"));
  const test::Folder fifth;
  CHECK_THAT(said(fifth, "echo 'broken' >&2; exit 1"), Contains("exit status 1; it said: broken"));
  CHECK_THAT(said_of("/nowhere/python3"), Contains("cannot start /nowhere/python3") && Contains("install Python 3"));
}

TEST_CASE("where the environment asks for it, the environment is named") {
  const test::Folder folder;
  CHECK_THAT(said(folder, R"(echo '{"lacks": "key", "why": "api.wandb.ai"}')", false),
             Contains("WANDB_MODE of the environment") && Contains("WANDB_MODE is \"online\""));
}

TEST_CASE("a Python is asked once") {
  const test::Folder folder;
  const std::string script = "echo x >> \"$0.asked\"; echo '{\"lacks\": \"\"}'";
  CHECK(said(folder, script) == "");
  CHECK(said(folder, script) == "");
  CHECK(std::filesystem::file_size(folder / "python.asked") == 2);
}

TEST_CASE("a Python file of the working folder is not taken for a library's") {
  const test::Folder folder;
  folder.write("json.py", "raise SystemExit('of the working folder')\n");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder / ".");
  const auto words = said_of("python3");
  std::filesystem::current_path(before);
  CHECK_THAT(words, !Contains("of the working folder"));
}

}  // namespace client_test
