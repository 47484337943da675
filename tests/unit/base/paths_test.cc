// What is not there, and what cannot be read: the two are never taken for each other.
#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan_catch.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <functional>

#include "support/errors.h"
#include "support/file_limit.h"
#include "support/folder.h"
#include "support/ordinary_user.h"

using namespace capstan;

namespace {

namespace fs = std::filesystem;

int number_of(const std::function<void()>& asks) {
  try {
    asks();
  } catch (const FileError& error) {
    return error.error_number();
  }
  return 0;
}

}  // namespace

TEST_CASE("what the system says is not there is absent") {
  const test::Folder folder;
  const auto file = folder.write("a", "text");
  fs::create_symlink("nowhere", folder / "dangling");
  CHECK(kind_of(folder.path()) == PathKind::folder);
  CHECK(kind_of(file) == PathKind::file);
  CHECK(kind_of("/dev/null") == PathKind::other);
  CHECK(kind_of(folder / "b") == PathKind::absent);
  CHECK(kind_of(fs::path(file) / "below a file") == PathKind::absent);
  CHECK(kind_of(folder / "dangling") == PathKind::absent);
  CHECK(entries_of(folder.path()) == std::vector<fs::path>{folder / "a", folder / "dangling"});
  CHECK(entries_if_there(folder / "b").empty());
  CHECK(number_of([&] { entries_of(folder / "b"); }) == ENOENT);
}

TEST_CASE("what cannot be looked at is not absent, and is said with what it means and what to do") {
  const test::Folder folder;
  fs::create_symlink("circle", folder / "circle");
  const auto file = fs::path(folder.write("file", ""));
  const std::string long_name(300, 'x');
  CHECK(test::error_of([&] { kind_of(folder / "circle"); }) ==
        (folder / "circle").string() +
            ": cannot look at it: Too many levels of symbolic links (ELOOP): they lead in a circle\n    fix: mend the "
            "links (namei -l shows them)");
  CHECK(number_of([&] { entries_if_there(folder / "circle"); }) == ELOOP);
  CHECK(number_of([&] { is_there(folder / long_name); }) == ENAMETOOLONG);
  CHECK(number_of([&] { entries_if_there(file); }) == ENOTDIR);
  CHECK(number_of([&] { read_file(folder.path()); }) == EISDIR);
  CHECK(number_of([&] { MappedFile mapped(folder.path()); }) == EISDIR);
  // The kernel refuses to read there as a broken disk would.
  CHECK_THAT(test::error_of([] { read_file("/proc/self/mem"); }), Contains("Input/output error (EIO): the disk or"));
}

TEST_CASE("a folder that an ordinary user may not enter is not absent") {
  const test::Folder folder;
  const auto inside = fs::path(folder.write("closed/file", "text"));
  const auto closed = inside.parent_path();
  fs::permissions(folder.path(), fs::perms::all);
  fs::permissions(closed, fs::perms::none);
  {
    const test::OrdinaryUser user;
    CHECK(kind_of(closed) == PathKind::folder);
    CHECK(number_of([&] { kind_of(inside); }) == EACCES);
    CHECK(number_of([&] { entries_of(closed); }) == EACCES);
    CHECK(number_of([&] { entries_if_there(closed); }) == EACCES);
    CHECK_THAT(
        test::error_of([&] { read_file(inside); }),
        Contains(inside.string() + ": cannot read it: Permission denied (EACCES)") && Contains("fix: give this"));
    CHECK_THAT(test::error_of([&] { write_file(inside, ""); }), Contains(inside.string() + ": cannot write it: Perm"));
  }
  fs::permissions(closed, fs::perms::owner_all);
}

TEST_CASE("a process without a descriptor left takes nothing for absent") {
  const test::Folder folder;
  const auto file = folder.write("file", "text");
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const int next = ::open("/dev/null", O_RDONLY);
  ::close(next);
  const rlimit none{static_cast<rlim_t>(next), before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const int reading = number_of([&] { read_file(file); });
  const int listing = number_of([&] { entries_if_there(folder.path()); });
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(reading == EMFILE);
  CHECK(listing == EMFILE);
}

TEST_CASE("each errno of a file system has its words") {
  for (const int number : {EACCES, EPERM, EIO, ESTALE, ELOOP, ENAMETOOLONG, ENOTDIR, EMFILE, ENFILE, ENOSPC, EDQUOT,
                           EFBIG, EROFS, ENOTCONN, ETIMEDOUT}) {
    const FileError error("/a", "read", number);
    INFO(error.what());
    CHECK_THAT(error.what(), Contains("/a: cannot read it: ") && Contains("(E") && Contains("fix: "));
    CHECK(error.absent() == (number == ENOTDIR));
  }
  CHECK(FileError("/a", "read", ENOENT).absent());
  CHECK_THAT(meaning_of(EXDEV), Contains("(errno "));
}

TEST_CASE("a file that cannot be written whole leaves the old one, and nothing next to it") {
  const test::Folder folder;
  const auto file = fs::path(folder.write("file", "old"));
  int reason = 0;
  {
    const test::FileLimit limit(100);
    reason = number_of([&] { write_file(file, std::string(1000, 'x')); });
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
