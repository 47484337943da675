#include <capstan/base/output.h>

#include <capstan/base/files.h>
#include <capstan/base/log.h>
#include <capstan_catch.h>
#include <fcntl.h>
#include <unistd.h>

#include <csignal>

#include "support/file_limit.h"
#include "support/folder.h"

namespace output_test {

using namespace capstan;

TEST_CASE("what a monitor shows follows where it was held, with nothing torn") {
  const test::Folder folder;
  const auto path = folder / "shown";
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT, 0600);
  {
    Output output(fd);
    output.write("step 1\n");
    {
      const test::FileLimit limit(10);
      output.write("step 2\n");
      output.write("step 3\n");
      CHECK(read_file(path) == "step 1\nste");
    }
    output.write("step 4\n");
    CHECK(read_file(path) == "step 1\nstep 2\nstep 3\nstep 4\n");
  }
  ::close(fd);
}

TEST_CASE("what nobody reads any more is lost at once, and counted when the output ends") {
  const test::Folder folder;
  const auto file = (folder / "log").string();
  log::configure(file, log::Level::error, 0);
  int ends[2] = {-1, -1};
  REQUIRE(::pipe(ends) == 0);
  ::close(ends[0]);
  {
    const auto before = std::signal(SIGPIPE, SIG_IGN);
    Output output(ends[1]);
    output.write("12345");
    output.write("678");
    std::signal(SIGPIPE, before);
  }
  ::close(ends[1]);
  log::configure("", log::Level::warning, 0);
  const auto said = read_file(file);
  CHECK_THAT(said, Contains("cannot write to standard output: ") && !Contains("follows when it can"));
  CHECK_THAT(said, Contains("8 bytes could not be written to standard output: "));
  CHECK(said.find("cannot write") == said.rfind("cannot write"));
}

}  // namespace output_test
