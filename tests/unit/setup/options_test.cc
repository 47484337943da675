#include <capstan_catch.h>

#include "config/document.h"
#include "setup/options.h"
#include "support/folder.h"

namespace options_test {

using namespace capstan;

namespace {

std::vector<std::string> faults_of(const std::string& name) {
  const test::Folder folder;
  Diagnostics faults;
  const auto document = config::load(folder.write("a.toml", "[run]\nname = " + name + "\n"), {}, faults);
  setup::check_run(config::Options<setup::RunOptions>(document.section("run"), faults), faults);
  std::vector<std::string> texts;
  for (const auto& fault : faults.list()) texts.push_back(fault.text());
  return texts;
}

}  // namespace

TEST_CASE("run.name is the name of a folder below run.dir") {
  for (const char* good : {"\"bloom-3\"", "\"a b\"", "\"..a\"", "\"naïve\""}) CHECK(faults_of(good).empty());
  for (const auto& [bad, word] :
       std::vector<std::pair<std::string, std::string>>{{"\"\"", "is empty"},
                                                        {"\"..\"", "leads out of run.dir"},
                                                        {"\"../../evil\"", "leads out of run.dir"},
                                                        {"\"/tmp/x\"", "leads out of run.dir"},
                                                        {"\"a\\u0000b\"", "control character"},
                                                        {"\"a\\u001b[2J\"", "control character"}}) {
    INFO(bad);
    const auto faults = faults_of(bad);
    REQUIRE(faults.size() == 1);
    CHECK_THAT(faults.front(), Contains("a.toml:2: run.name " + std::string()) && Contains(word) && Contains("run-3"));
  }
}

}  // namespace options_test
