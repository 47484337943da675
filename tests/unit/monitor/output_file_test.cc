// Files that a command line names to be written: none of a run, and none through a link.
#include <capstan/base/files.h>
#include <capstan/monitor/output_file.h>
#include <capstan_catch.h>
#include <fcntl.h>
#include <unistd.h>

#include "support/errors.h"
#include "support/folder.h"

namespace output_file_test {

using namespace capstan;
using monitor::write_output;
namespace fs = std::filesystem;

namespace {

std::string refusal(const fs::path& file) {
  return test::error_of([&] { write_output(file.string(), "new"); });
}

}  // namespace

TEST_CASE("no file of a run is written over, whatever its name and wherever it lies in the folder") {
  const test::Folder folder;
  folder.write("run/config.toml", "[monitor.csv]\nfile = \"table.csv\"\n");
  folder.write("run/metrics.jsonl", "old");
  fs::create_directories(folder / "run/traces");
  fs::create_directory_symlink("run", folder / "other");
  for (const auto* own : {"config.toml", "metrics.jsonl", "summary.json", "table.csv", "logs/rank-0.log",
                          "checkpoints/step-00000002/manifest.json", "weights/x", "traces/../summary.json"}) {
    const auto file = folder / "run" / own;
    CHECK_THAT(refusal(file), Contains("it is a file of the run " + (folder / "run").string() + "\n") &&
                                  Contains("fix: name another file"));
    CHECK_FALSE(refusal(folder / "other" / own).empty());
  }
  CHECK(read_file(folder / "run/metrics.jsonl") == "old");
  for (int again = 0; again < 2; ++again) CHECK(refusal(folder / "run/report.html").empty());
  CHECK(read_file(folder / "run/report.html") == "new");
}

TEST_CASE("a folder with only a config.toml is no run") {
  const test::Folder folder;
  const auto file = folder.write("config.toml", "");
  CHECK(refusal(file).empty());
  CHECK(read_file(file) == "new");
}

TEST_CASE("nothing is written through a link to a file, or to where a file could be") {
  const test::Folder folder;
  const auto target = folder.write("target", "old");
  for (const auto* to : {"target", "nowhere"}) {
    const auto link = folder / "link";
    fs::remove(link);
    fs::create_symlink(to, link);
    CHECK(refusal(link) ==
          link.string() + ": it is a link to " + to +
              ", and nothing is written through links\n    fix: name that file itself, or another one");
    CHECK(fs::is_symlink(link));
  }
  CHECK(read_file(target) == "old");
  CHECK_FALSE(fs::exists(folder / "nowhere"));
}

TEST_CASE("a device and a pipe are written to, also by a link") {
  const test::Folder folder;
  CHECK(refusal("/dev/null").empty());
  fs::create_symlink("/dev/null", folder / "null");
  CHECK(refusal(folder / "null").empty());
  CHECK(fs::is_symlink(folder / "null"));
  CHECK_THAT(refusal("/dev/full"), Contains("cannot write it: No space is left"));
  const int file = ::open((folder / "out").c_str(), O_WRONLY | O_CREAT, 0600);
  CHECK(refusal("/proc/self/fd/" + std::to_string(file)).empty());
  ::close(file);
  CHECK(read_file(folder / "out") == "new");
}

}  // namespace output_file_test
