#include <capstan/data_parts/derived_file.h>

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <map>
#include <thread>
#include <vector>

#include "support/folder.h"

namespace derived_file_test {

using namespace capstan;
namespace fs = std::filesystem;

namespace {

data::DerivedFile file_in(const fs::path& folder, const std::string& key = "key") {
  return {folder, "rows.jsonl", key, "set data.derived to another folder"};
}

// The texts of what n threads got: a file's content, or an Error's text.
std::vector<std::string> got_by(int n, const data::DerivedFile& file, const data::MakeFile& make) {
  std::vector<std::string> texts(static_cast<std::size_t>(n));
  std::vector<std::thread> threads;
  for (auto& text : texts) {
    threads.emplace_back([&] {
      try {
        text = read_file(data::derive(file, make));
      } catch (const Error& error) {
        text = error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return texts;
}

}  // namespace

TEST_CASE("a file is made once for all who ask, and found again") {
  const test::Folder folder;
  const auto file = file_in(folder / "new" / "folder");
  std::atomic<int> made = 0;
  const auto make = [&](const fs::path& unfinished) {
    ++made;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    write_file(unfinished, "rows");
  };
  CHECK(got_by(5, file, make) == std::vector<std::string>(5, "rows"));
  CHECK(made == 1);
  CHECK(data::derive(file, make) == file.path());
  CHECK(made == 1);
  CHECK(file.path().filename().string().starts_with("rows-"));
  CHECK(file.path().extension() == ".jsonl");
  data::derive(file_in(folder / "new" / "folder", "another key"), make);
  CHECK(made == 2);
}

TEST_CASE("who waits while it fails gets the same Error, and who comes later tries again") {
  const test::Folder folder;
  const auto file = file_in(folder.path());
  std::atomic<int> tried = 0;
  const auto fail = [&](const fs::path&) {
    ++tried;
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    throw Error("row 7 is broken", "write it again", "a.parquet");
  };
  const auto texts = got_by(4, file, fail);
  CHECK(texts == std::vector<std::string>(4, Error("row 7 is broken", "write it again", "a.parquet").what()));
  CHECK(tried == 1);
  CHECK_THROWS_AS(data::derive(file, fail), Error);
  CHECK(tried == 2);
  CHECK(read_file(data::derive(file, [](const fs::path& unfinished) { write_file(unfinished, "rows"); })) == "rows");
}

TEST_CASE("a process that dies leaves no file, and what it left is taken away when it is old") {
  const test::Folder folder;
  const auto file = file_in(folder.path());
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    data::derive(file, [](const fs::path& unfinished) {
      write_file(unfinished, "half");
      ::_exit(0);
    });
  }
  ::waitpid(child, nullptr, 0);
  CHECK_FALSE(is_there(file.path()));
  CHECK(entries_of(folder.path()).size() == 2);
  for (const auto& entry : entries_of(folder.path()))
    fs::last_write_time(entry, fs::file_time_type::clock::now() - std::chrono::hours(48));
  CHECK(read_file(data::derive(file, [](const fs::path& unfinished) { write_file(unfinished, "whole"); })) == "whole");
  CHECK(entries_of(folder.path()).size() == 2);
}

TEST_CASE("a folder that cannot be written to is one fault with the advice") {
  const test::Folder folder;
  const auto file = file_in(fs::path(folder.write("file", "")) / "below");
  CHECK_THROWS_WITH(
      data::derive(file, [](const fs::path&) {}),
      Contains(file.path().string() + ": cannot write it: ") && Contains("set data.derived to another folder"));
}

TEST_CASE("a file counts by its bytes") {
  const test::Folder folder;
  const auto one = data::content_key(folder.write("one", "bytes"));
  CHECK(one == data::content_key(folder.write("two", "bytes")));
  CHECK(one != data::content_key(folder.write("one", "bytez")));
  CHECK(one.starts_with("5 bytes, XXH64 "));
}

TEST_CASE("derived files are kept where the environment says") {
  const auto folder = [](std::map<std::string, std::string> variables) {
    return data::derived_folder([variables = std::move(variables)](const std::string& name) {
      const auto found = variables.find(name);
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    });
  };
  CHECK(folder({}).empty());
  CHECK(folder({{"HOME", "/home/a"}}) == "/home/a/.cache/capstan");
  CHECK(folder({{"HOME", "/home/a"}, {"XDG_CACHE_HOME", "/x"}}) == "/x/capstan");
  CHECK(folder({{"XDG_CACHE_HOME", "/x"}, {"CAPSTAN_CACHE", "/scratch/c"}}) == "/scratch/c/derived");
}

}  // namespace derived_file_test
