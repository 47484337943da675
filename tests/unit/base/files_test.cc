#include <capstan/base/files.h>

#include <capstan/base/paths.h>
#include <capstan_catch.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/mapped_files.h"
#include "support/errors.h"
#include "support/file_limit.h"
#include "support/folder.h"

namespace files_test {

using namespace capstan;
namespace fs = std::filesystem;

TEST_CASE("a file that cannot be written whole leaves the old one, and nothing beside it") {
  const test::Folder folder;
  const auto file = fs::path(folder.write("file", "old"));
  int reason = 0;
  try {
    const test::FileLimit limit(100);
    write_file(file, std::string(1000, 'x'));
  } catch (const FileError& error) {
    reason = error.error_number();
  }
  CHECK(reason == EFBIG);
  CHECK(read_file(file) == "old");
  CHECK(entries_of(folder.path()).size() == 1);
}

TEST_CASE("a pipe or a device is written to, and stays one") {
  const test::Folder folder;
  const auto pipe = folder.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const int end = ::open(pipe.c_str(), O_RDWR | O_NONBLOCK);
  write_file(pipe, "two");
  CHECK(fs::is_fifo(pipe));
  std::array<char, 3> got{};
  CHECK(::read(end, got.data(), got.size()) == 3);
  CHECK(std::string(got.data(), got.size()) == "two");
  ::close(end);
}

TEST_CASE("a link is replaced by the file that is written, and what it led to stays") {
  const test::Folder folder;
  const auto target = folder.write("target", "old");
  for (const auto* to : {"target", "nowhere", "link"}) {
    const auto link = folder.path() / "link";
    fs::remove(link);
    fs::create_symlink(to, link);
    write_file(link, "new");
    CHECK(fs::is_regular_file(fs::symlink_status(link)));
    CHECK(read_file(link) == "new");
  }
  CHECK(read_file(target) == "old");
  CHECK_FALSE(fs::exists(folder.path() / "nowhere"));
}

TEST_CASE("a pipe that nobody writes to is refused, not waited for") {
  const test::Folder folder;
  const auto pipe = (folder / "pipe").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THAT(test::error_of([&] { read_file(pipe); }), Contains(pipe + ": it is a pipe or a device, not a file"));
  CHECK_THAT(test::error_of([&] { MappedFile mapped(pipe); }), Contains("write its content to a file first"));
  CHECK_THAT(test::error_of([&] { read_file("/dev/zero"); }), Contains("/dev/zero: it is a pipe or a device"));
}

TEST_CASE("a folder is copied over another: what both have is replaced, what only one has is there") {
  const test::Folder folder;
  folder.write("from/a", "new");
  folder.write("from/deeper/b", "b");
  folder.write("to/a", "old");
  folder.write("to/c", "c");
  copy_over(folder / "from", folder / "to");
  CHECK(read_file(folder / "to/a") == "new");
  CHECK(read_file(folder / "to/deeper/b") == "b");
  CHECK(read_file(folder / "to/c") == "c");
  try {
    copy_over(folder / "from", folder / "to/c");
    FAIL("a file is in the folder's place");
  } catch (const FileError& error) {
    CHECK(error.diagnostics().front().where == (folder / "to/c").string());
  }
}

TEST_CASE("a mapped file's bytes are known by their addresses while it is mapped; an empty one has none") {
  const test::Folder folder;
  const auto path = folder.write("file", "0123456789");
  const MappedFile empty(folder.write("empty", ""));
  CHECK(empty.size() == 0);
  const std::byte* data = nullptr;
  {
    const MappedFile file(path);
    data = file.data();
    REQUIRE(file.size() == 10);
    const auto last = mapped_byte_at(data + 9);
    REQUIRE(last);
    CHECK(last->file == path);
    CHECK(last->offset == 9);
    CHECK_FALSE(mapped_byte_at(data + 10));
  }
  CHECK_FALSE(mapped_byte_at(data));
}

}  // namespace files_test
