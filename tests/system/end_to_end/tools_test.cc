// tools/test in a tree of its own, whose ninja and test programs are scripts: what it says into a log.
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>

#include "end_to_end/program.h"

using namespace end_to_end;
using capstan::cat;
namespace fs = std::filesystem;

namespace {

class Tree {
 public:
  Tree() {
    fs::create_directories(root() / "core/aa");
    fs::create_directories(root() / ".deps/torch");
    write("tools/test", "");
    fs::copy_file(source_dir() / "tools/test", root() / "tools/test", fs::copy_options::overwrite_existing);
    script("tools/check-house", "exit 0");
    write("build/cpu/build.ninja", "");
    write("tests/unit/aa/a_test.cc", "");
    write("tests/unit/bb/b_test.cc", "");
    script("build/cpu/tests/test_aa", "echo skipped: 2 GPUs are needed, 1 visible\nsleep 2");
    script("build/cpu/tests/test_bb", "echo 'All tests passed (3 assertions in 2 test cases)'");
    script("tests/system/slurm/run", "echo there is no slurmctld\nexit 77");
    script("bin/ninja", "echo '[1/3] Building a'\nsleep 2\necho 'a.cc:1: warning'\necho '[2/3] Building b'");
  }
  std::string test(const std::string& rooms) const {
    const auto command = cat("cd '", root().string(), "' && PATH='", (root() / "bin").string(),
                             "':\"$PATH\" CAPSTAN_TEST_SAYS_S=0.5 python3 tools/test ", rooms, " 2>&1");
    FILE* pipe = ::popen(command.c_str(), "r");
    REQUIRE(pipe != nullptr);
    std::string text;
    std::array<char, 4096> block{};
    while (const auto read = std::fread(block.data(), 1, block.size(), pipe)) text.append(block.data(), read);
    INFO(text);
    REQUIRE(WEXITSTATUS(::pclose(pipe)) == 0);
    return text;
  }

 private:
  const fs::path& root() const { return work_.folder(); }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((root() / name).parent_path());
    work_.write(name, text);
  }
  void script(const std::string& name, const std::string& text) const {
    write(name, cat("#!/bin/sh\n", text, "\n"));
    fs::permissions(root() / name, fs::perms::owner_all);
  }
  Workspace work_;
};

}  // namespace

TEST_CASE("tools/test tells a log what is done, and its last line has what was skipped and why") {
  const auto text = Tree().test("aa bb slurm");
  INFO(text);
  CHECK_THAT(text, Contains("build: 1 of 3 steps done, ") && Contains("a.cc:1: warning"));
  CHECK_THAT(text, !Contains("[1/3]"));
  CHECK_THAT(text, Contains("tests: 2 of 3 done, now: aa, "));
  const auto last = text.substr(text.rfind('\n', text.size() - 2) + 1);
  CHECK_THAT(last, Contains("2 of 3 passed, 1 skipped (slurm: there is no slurmctld), ") &&
                       Contains("(aa: 2 GPUs are needed, 1 visible)"));
}
