// tools/test and tools/build-times in a tree of their own, whose ninja and test programs are scripts: what they say.
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>

#include "end_to_end/program.h"

namespace tools_test {

using namespace end_to_end;
using capstan::cat;
namespace fs = std::filesystem;

namespace {

class Tree {
 public:
  Tree() {
    fs::create_directories(root() / "core/aa");
    fs::create_directories(root() / ".deps/torch");
    fs::create_directories(root() / "tools");
    for (const char* name : {"tools/test", "tools/test_run.py", "tools/build-times"})
      fs::copy_file(source_dir() / name, root() / name);
    script("tools/check-house", "exit 0");
    write("build/cpu/build.ninja", "");
    write("tests/unit/aa/a_test.cc", "");
    write("tests/unit/bb/b_test.cc", "");
    script("build/cpu/tests/test_aa", "echo skipped: 2 GPUs are needed, 1 visible\nsleep 2");
    script("build/cpu/tests/test_bb", "echo 'All tests passed (3 assertions in 2 test cases)'");
    script("tests/system/slurm/run", "echo there is no slurmctld\nexit 77");
    script("bin/ninja", "echo '[1/3] Building a'\nsleep 2\necho 'a.cc:1: warning'\necho '[2/3] Building b'");
  }
  std::string test(const std::string& rooms, int status = 0) const { return run("tools/test " + rooms, status); }
  std::string run(const std::string& words, int status = 0) const {
    const auto command = cat("cd '", root().string(), "' && PATH='", (root() / "bin").string(),
                             "':\"$PATH\" CAPSTAN_TEST_SAYS_S=0.5 python3 ", words, " 2>&1");
    FILE* pipe = ::popen(command.c_str(), "r");
    REQUIRE(pipe != nullptr);
    std::string text;
    std::array<char, 4096> block{};
    while (const auto read = std::fread(block.data(), 1, block.size(), pipe)) text.append(block.data(), read);
    INFO(text);
    REQUIRE(WEXITSTATUS(::pclose(pipe)) == status);
    return text;
  }
  const fs::path& root() const { return work_.folder(); }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((root() / name).parent_path());
    work_.write(name, text);
  }
  void script(const std::string& name, const std::string& text) const {
    write(name, cat("#!/bin/sh\n", text, "\n"));
    fs::permissions(root() / name, fs::perms::owner_all);
  }

 private:
  Workspace work_;
};

/// A build of three targets, by Ninja's two files: the seconds of each, the last one's link included.
void write_build(const Tree& tree, int yardstick, int host, int test) {
  std::string rules, log = "# ninja log v5\n";
  const auto step = [&](const std::string& output, const std::string& rule, int seconds) {
    rules += cat("build ", output, ": ", rule, "_RelWithDebInfo a.cc | b\n  FLAGS = -O2\n");
    log += cat("0\t999000\t0\t", output, "\tolder", output, "\n", "1000\t", 1000 * (seconds + 1), "\t0\t", output,
               "\tnew", output, "\n");
  };
  step("CMakeFiles/capstan_catch_main.dir/main.cc.o", "CXX_COMPILER__capstan_catch_main", yardstick);
  step("core/CMakeFiles/capstan_host_objects.dir/host/a.cc.o", "CXX_COMPILER__capstan_host_objects", host);
  step("tests/CMakeFiles/test_shard.dir/s_test.cc.o", "CXX_COMPILER__test_shard", test);
  step("tests/test_shard", "CXX_EXECUTABLE_LINKER__test_shard", 1);
  tree.write("build/cpu/build.ninja", rules);
  tree.write("build/cpu/.ninja_log", log);
}

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

TEST_CASE("tools/test runs a long program as several, each with its own cases") {
  const Tree tree;
  tree.write("tests/system/end_to_end/c_test.cc", "");
  tree.script("build/cpu/tests/test_end_to_end",
              "case \"$*\" in *--list*) printf 'a, b\\nc [d]\\n\"#e\"\\nf \\134 g\\nh\\n'; exit 5;; esac\n"
              "echo \"All tests passed (9 assertions in $(wc -l <\"$2\") test cases)\"");
  const auto text = tree.test("end_to_end");
  INFO(text);
  CHECK_THAT(text, Contains("ok   end_to_end 1/4 ") && Contains(" of a processor  9 assertions in 2 test cases") &&
                       Contains("4 of 4 passed"));
  const auto cases = [&](int number) {
    return capstan::read_file(tree.root() / cat("build/cpu/tests/test_end_to_end.", number, ".cases"));
  };
  CHECK(cases(1) == "\"a\\, b\"\n\"h\"\n");
  CHECK(cases(2) == "\"c \\[d]\"\n");
  CHECK(cases(3) == "\"#e\"\n");
  CHECK(cases(4) == "\"f \\\\ g\"\n");
}

TEST_CASE("tools/test knows the verdicts of the cases after the one that its program died in") {
  const Tree tree;
  tree.write("tests/unit/cc/c_test.cc", "");
  tree.script("build/cpu/tests/test_cc",
              "case \"$*\" in *--list*) printf 'one\\ntwo\\nthree\\n'; exit 3;; *-f*) cat \"$2\"; exit 0;; esac\n"
              "echo '0.100 s: one'\nkill -9 $$");
  const auto text = tree.test("cc", 1);
  CHECK_THAT(text, Contains("ended by signal 9") && Contains("it died in: two\n\"three\"") && Contains("1 failed"));
}

TEST_CASE("tools/build-times says what a build's targets took, and which of them grew on one machine or another") {
  const Tree tree;
  write_build(tree, 4, 10, 20);
  tree.write("a.log", "== setup: 7 s\nok   shard    12.5 s     9.5 of a processor  3 assertions in 2 test cases\n");
  const auto text = tree.run("tools/build-times build/cpu --log a.log --json then.json");
  INFO(text);
  CHECK_THAT(text, Contains("35 s in 4 steps") && Contains("20.0 s  test shard") && Contains("10.0 s  host"));
  CHECK_THAT(text, Contains("1.0 s  links") && Contains("7.0 s  setup") && Contains("12.5 s  shard") &&
                       Contains("a processor for programs\n        9.5 s  shard"));
  write_build(tree, 8, 20, 60);  // a machine half as fast, on which one target takes more
  const auto grown = tree.run("tools/build-times build/cpu --against then.json");
  CHECK_THAT(grown, Contains("needs 2.00 of the time of the one before, by capstan_catch_main"));
  CHECK_THAT(grown, Contains("warning: test_shard takes 1.50 of what it took (20.0 s): 60.0 s"));
  CHECK_THAT(grown, !Contains("warning: capstan_host_objects"));
  write_build(tree, 4, 1, 2);
  CHECK_THAT(tree.run("tools/build-times build/cpu --against then.json"), Contains("came from a compiler cache"));
}

}  // namespace tools_test
