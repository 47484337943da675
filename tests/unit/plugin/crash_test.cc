// A plugin that crashes in its entry is named: the signal by itself does not say whose fault it is.
#include <capstan/base/files.h>
#include <capstan_catch.h>
#include <capstan_places.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "plugin/loader.h"
#include "support/folder.h"

namespace crash_test {

TEST_CASE("a plugin that crashes while it is opened is named, and the signal stays") {
  const std::string file = CAPSTAN_BINARY_DIR "/tests/crashing/crashing_register.so";
  const test::Folder folder;
  const auto said = folder / "said";
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const int out = ::open(said.c_str(), O_WRONLY | O_CREAT, 0600);
    ::dup2(out, STDERR_FILENO);
    capstan::plugin::load_plugin_file(file, "monitor");
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGSEGV);
  CHECK_THAT(capstan::read_file(said), Contains(file + ": the plugin crashed while it was opened\n"));
}

}  // namespace crash_test
