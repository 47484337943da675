// Files of lines on a disk that is full for a while, or for good.
#include <capstan/base/files.h>
#include <capstan/base/line_file.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include <unistd.h>

#include <cerrno>

#include "support/errors.h"
#include "support/file_limit.h"
#include "support/folder.h"

namespace line_file_test {

using namespace capstan;
using namespace std::chrono_literals;

namespace {

// A disk with `room` bytes left.
struct Disk {
  std::size_t room = 0;
  int reason = ENOSPC;
  std::vector<std::string> said;

  LineFile::Settings settings(std::size_t most_held = 1000) {
    LineFile::Settings out;
    out.most_held = most_held;
    out.warn = [this](const std::string& text) { said.push_back(text); };
    out.write = [this](int fd, const void* data, std::size_t size) -> ssize_t {
      if (room == 0) {
        errno = reason;
        return -1;
      }
      const auto written = ::write(fd, data, std::min(size, room));
      room -= static_cast<std::size_t>(written);
      return written;
    };
    return out;
  }
};

}  // namespace

TEST_CASE("lines for which a disk has no room follow when it has, each whole") {
  const test::Folder folder;
  const auto path = folder / "lines";
  Disk disk{.room = 7, .said = {}};
  LineFile file(path, disk.settings());
  file.add("first");  // 6 bytes with its end: 1 is left
  CHECK(disk.said.empty());
  file.add("second");
  CHECK(read_file(path) == "first\n");  // the torn line is taken back
  file.add("third");
  REQUIRE(disk.said.size() == 1);  // and not once a line
  CHECK_THAT(disk.said[0],
             Contains(path.string() + ": cannot write it: No space is left on its file system (ENOSPC)") &&
                 Contains("held in memory") && Contains("fix: free some space there"));
  CHECK_THAT(file.finish(0ms), Contains(path.string() + ": 2 lines of it could not be written: No space is left"));
  disk.room = 1000;
  file.add("fourth");
  CHECK(read_file(path) == "first\nsecond\nthird\nfourth\n");
  CHECK(file.finish(0ms).empty());
  REQUIRE(disk.said.size() == 2);
  CHECK_THAT(disk.said[1], Contains("it can be written again; nothing of it is missing"));
  disk.room = 0;
  file.add("fifth");
  CHECK(disk.said.size() == 3);
  disk.room = 1000;  // the destructor tries once more
}

TEST_CASE("when several lines wait, those that were written whole stay") {
  const test::Folder folder;
  Disk disk;
  LineFile file(folder / "lines", disk.settings());
  for (const char* line : {"a1", "b2", "c3"}) file.add(line);
  disk.room = 7;
  file.add("d4");
  CHECK(read_file(folder / "lines") == "a1\nb2\n");
  disk.room = 7;
  CHECK(file.close().empty());
  CHECK(read_file(folder / "lines") == "a1\nb2\nc3\nd4\n");
}

TEST_CASE("what cannot be held is lost, counted and said at the end") {
  const test::Folder folder;
  Disk disk{.reason = EDQUOT, .said = {}};
  LineFile file(folder / "lines", disk.settings(10));
  for (const char* line : {"1234", "567", "lost", "lost"}) file.add(line);
  CHECK(file.held() == 9);
  disk.room = 100;
  CHECK_THAT(file.finish(0ms), Contains("2 lines of it could not be written: The disk quota there is used up"));
  CHECK(read_file(folder / "lines") == "1234\n567\n");
  CHECK_THAT(disk.said.back(), Contains("2 lines of it are lost"));
}

TEST_CASE("a limit of the kernel on a file's size tears no line") {
  const test::Folder folder;
  const auto path = folder / "lines";
  std::vector<std::string> said;
  LineFile::Settings settings;
  settings.warn = [&](const std::string& text) { said.push_back(text); };
  LineFile file(path, settings);
  const std::string line(60, 'x');
  {
    const test::FileLimit limit(100);
    file.add(line);
    file.add(line);
    CHECK(read_file(path).size() == 61);
  }
  REQUIRE(said.size() == 1);
  CHECK_THAT(said[0], Contains("File too large (EFBIG)"));
  CHECK(file.finish(0ms).empty());
  CHECK(read_file(path) == line + "\n" + line + "\n");
}

TEST_CASE("a device that is full is said at the end, and a half line of a crash ends before the next one") {
  LineFile::Settings quiet;
  quiet.warn = [](const std::string&) {};
  LineFile full("/dev/full", quiet);
  full.add("a line");
  CHECK_THAT(full.finish(0ms), Contains("/dev/full: 1 line of it could not be written: No space is left"));
  const test::Folder folder;
  const auto path = folder.write("lines", "whole\nha");
  LineFile file(path);
  file.add("next");
  CHECK(read_file(path) == "whole\nha\nnext\n");
  CHECK_THAT(test::error_of([&] { LineFile(folder.path()); }), Contains("cannot write it: Is a directory"));
}

TEST_CASE("a file that was deleted while it was written is missed at the end") {
  const test::Folder folder;
  LineFile file((folder / "metrics.jsonl").string());
  file.add("one");
  CHECK(file.finish(0ms).empty());
  std::filesystem::remove(folder / "metrics.jsonl");
  file.add("two");
  CHECK_THAT(file.finish(0ms), Contains("metrics.jsonl: it was deleted while it was written"));
}

TEST_CASE("lines are not written through a link") {
  const test::Folder folder;
  const auto target = folder.write("other.jsonl", "{}\n");
  for (const auto* to : {"other.jsonl", "nowhere"}) {
    const auto link = folder / "metrics.jsonl";
    std::filesystem::remove(link);
    std::filesystem::create_symlink(to, link);
    CHECK(
        test::error_of([&] { LineFile(link).add("one"); }) ==
        link.string() +
            ": it is a link, and lines are not written through links\n    fix: remove the link, or move the file that "
            "it leads to into its place");
  }
  CHECK(read_file(target) == "{}\n");
  CHECK_FALSE(std::filesystem::exists(folder / "nowhere"));
}

}  // namespace line_file_test
