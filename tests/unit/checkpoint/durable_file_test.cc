#include "checkpoint/durable_file.h"

#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan_catch.h>

#include <cerrno>

#include "checkpoint/faults.h"
#include "checkpoint/scratch.h"

namespace durable_file_test {

using namespace capstan;
using namespace capstan::checkpoint;

namespace {

namespace fs = std::filesystem;

std::size_t entries(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("a file appears whole when it is finished; one that is given up leaves the old text, and nothing beside it") {
  const Scratch scratch;
  const auto path = scratch / "a";
  write_durable(path, "old");
  {
    DurableFile file(path);
    file.write("ne", 2);
    CHECK(read_file(path) == "old");
  }
  CHECK(read_file(path) == "old");
  CHECK(entries(scratch.path()) == 1);
  DurableFile file(path);
  file.write("ne", 2);
  file.write("w", 1);
  CHECK(read_file(path) == "old");
  file.finish();
  CHECK(read_file(path) == "new");
  CHECK(entries(scratch.path()) == 1);
}

TEST_CASE("a file that cannot take its name is named by it, and does not stay under another") {
  const Scratch scratch;
  fs::create_directory(scratch / "a");
  DurableFile file(scratch / "a");
  CHECK_THAT(fault_of([&] { file.finish(); }), Contains((scratch / "a").string() + ": cannot rename it: "));
  CHECK(entries(scratch.path()) == 1);
  CHECK_THAT(fault_of([&] { DurableFile none(scratch / "none/b"); }),
             Contains((scratch / "none/b").string() + ": cannot create it: "));
  CHECK_THAT(fault_of([&] { sync_folder(scratch / "none"); }), Contains("cannot open it: "));
}

TEST_CASE("a full disk and a used-up quota are kinds of their own, and other failures are not") {
  const Scratch scratch;
  CHECK_THROWS_AS(throw_file_error("/quota/file", "write", EDQUOT), DiskFull);
  CHECK(fault_of([] { throw_file_error("/quota/file", "write", EDQUOT); }) ==
        "/quota/file: cannot write it: your disk quota there is used up\n    fix: delete what is no longer needed, or "
        "write to another file system");
  CHECK_THROWS_AS(throw_file_error(scratch / "a", "write", ENOSPC), DiskFull);
  CHECK_THAT(fault_of([&] { throw_file_error(scratch / "a", "write", ENOSPC); }),
             Contains("no space is left on its file system (") && Contains(" free)"));
  CHECK_THAT(fault_of([] { throw_file_error("/nowhere/a", "write", ENOSPC); }),
             Contains("no space is left on its file system\n") && !Contains(" free)"));
  CHECK_THROWS_AS(throw_file_error(scratch / "a", "write", EIO), FileError);
  CHECK(free_bytes(scratch / "none") == -1);
}

}  // namespace durable_file_test
