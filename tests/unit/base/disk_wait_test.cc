#include "base/disk_wait.h"

#include <capstan/base/files.h>
#include <capstan/base/line_file.h>
#include <capstan_catch.h>

#include "support/disk_mark.h"
#include "support/folder.h"

namespace disk_wait_test {

using namespace capstan;

TEST_CASE("what began first is said of all that a process does at a disk") {
  const std::filesystem::path first("/x/a"), second("/x/b");
  CHECK_FALSE(DiskWait::oldest());
  auto reads = std::make_unique<DiskWait>("reading", first);
  const DiskWait writes("writing", second);
  CHECK(DiskWait::oldest() == "reading /x/a");
  reads.reset();
  CHECK(DiskWait::oldest() == "writing /x/b");
}

TEST_CASE("who reads or writes a file says so meanwhile, and no longer") {
  const test::Folder folder;
  const auto file = folder.write("a", std::string(1 << 20, 'x'));
  CHECK(test::is_marked("reading " + file, [&] { read_file(file); }));
  CHECK(test::is_marked("writing " + file, [&] { write_file(file, "y"); }));
  LineFile lines(folder / "lines");
  CHECK(test::is_marked("writing " + (folder / "lines").string(), [&] { lines.add("a line"); }));
  CHECK_FALSE(DiskWait::oldest());
}

}  // namespace disk_wait_test
