// What is not there, and what cannot be read: the two are never taken for each other.
#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan_catch.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

#include "support/errors.h"
#include "support/folder.h"
#include "support/ordinary_user.h"

namespace paths_test {

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
  CHECK(
      test::error_of([&] { kind_of(folder / "circle"); }) ==
      (folder / "circle").string() +
          ": cannot look at it: Too many levels of symbolic links (ELOOP): they lead in a circle\n    fix: repair the "
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

}  // namespace paths_test
