#include "plugin/abi.h"

#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include "plugin/fixtures.h"

namespace abi_test {

using Catch::Matchers::Matches;
using namespace capstan;
using namespace capstan::plugin;

TEST_CASE("a plugin's note holds the host's own tag, stripped or not") {
  const auto host = host_abi_tag();
  CHECK_THAT(host, Contains("sdk=") && Contains("cxx=") && Contains("std=c++20") && Contains("torch="));
  CHECK(plugin_abi_tag("engine") == "needs=engine " + host);
  CHECK(plugin_abi_tag("host") == "needs=host " + host.substr(0, host.find(" torch=")));
  CHECK(read_abi_tag(test::fixture("good")) == plugin_abi_tag("host"));
  CHECK(read_abi_tag(test::fixture("stripped")) == plugin_abi_tag("host"));
  CHECK(read_abi_tag(test::fixture("needs_engine")) == plugin_abi_tag("engine"));
  CHECK_NOTHROW(check_abi(test::fixture("needs_engine")));
  CHECK_NOTHROW(check_abi(test::fixture("stripped")));
}

TEST_CASE("a command's line is read without opening it; files of other kinds have none") {
  const auto folder = std::filesystem::path(CAPSTAN_BINARY_DIR) / "tests/run_fixtures";
  CHECK(read_note(folder / "command/echo.so", Note::command_line) == "says what it is told");
  CHECK(read_abi_tag(folder / "command/echo.so") == plugin_abi_tag("host"));
  CHECK(read_note(test::fixture("good"), Note::command_line).empty());
  CHECK_FALSE(read_note(folder / "command/gate.so", Note::table).empty());
  CHECK(read_note(folder / "command/echo.so", Note::table).empty());
}

TEST_CASE("a difference shows every field, those marked that differ") {
  CHECK(abi_difference("sdk=1 torch=2.11.0", "sdk=1 torch=2.11.0").empty());
  CHECK(abi_difference("sdk=1 torch=2.11.0", "torch=2.11.0 sdk=1").empty());
  CHECK(abi_difference("sdk=1 torch=2.11.0", "sdk=1 torch=2.10.0 cuda=13") ==
        "      field  this Capstan  plugin\n"
        "      sdk    1             1\n"
        "      torch  2.11.0        2.10.0  <- differs\n"
        "      cuda   -             13      <- differs");
  CHECK_THAT(abi_difference("sdk=1 cxx=gcc12", "sdk=1"), Contains("cxx    gcc12         -       <- differs"));
}

TEST_CASE("a plugin of the same SDK fits unless its level is above the host's") {
  CHECK(abi_difference("sdk=14.2", "sdk=14.2").empty());
  CHECK(abi_difference("sdk=14.10", "sdk=14.9").empty());
  for (const char* other : {"14.3", "14.11", "13.2", "15.0", "14", "14.", "14.x", "14.1x", "14.1.0", ".1", ""}) {
    INFO(other);
    CHECK_THAT(abi_difference("sdk=14.2", cat("sdk=", other)), Contains("<- differs"));
  }
}

TEST_CASE("a plugin of another LibTorch is refused field by field") {
  const auto file = test::fixture("wrong_tag");
  const auto message = test::error_of([&] { check_abi(file); });
  CHECK_THAT(message, Contains(file.string() + ": was built for another Capstan and cannot be loaded"));
  CHECK_THAT(message, Contains("1.0.0   <- differs") && Contains("13      <- differs"));
  CHECK_THAT(message, Contains("fix: rebuild the plugin against this Capstan's SDK"));
}

TEST_CASE("a plugin of another SDK or compiler is refused, and only that field is marked") {
  const auto marked = [](const char* name) {
    std::string lines;
    for (const auto& line : split(test::error_of([&] { check_abi(test::fixture(name)); }), '\n')) {
      if (line.find("<- differs") != std::string::npos) lines += line + "\n";
    }
    return lines;
  };
  CHECK_THAT(marked("wrong_sdk"), Matches("      sdk +[0-9.]+ +0 +<- differs\n"));
  CHECK_THAT(marked("wrong_compiler"), Matches("      cxx +[a-z]+[0-9]+ +clang3 +<- differs\n"));
}

TEST_CASE("a file that is no plugin says which file and why") {
  CHECK(test::error_of([] { read_abi_tag("/nowhere/x.so"); }) ==
        "/nowhere/x.so: cannot open it: No such file or directory");
  CHECK_THAT(test::error_of([] { read_abi_tag(test::fixture("no_note")); }),
             Contains("no_note.so: is no Capstan plugin: it has no ABI note (.note.capstan)"));
  const test::Folder folder;
  const auto file = folder.path() / "x.so";
  write_file(file, "");
  CHECK_THAT(test::error_of([&] { read_abi_tag(file); }), Contains("x.so: is no shared library (no ELF file)"));
  write_file(file, "#!/bin/sh\necho no\n");
  CHECK_THAT(test::error_of([&] { read_abi_tag(file); }), Contains("x.so: is no shared library (no ELF file)"));
}

TEST_CASE("a file that is cut short is refused wherever the cut is") {
  const auto whole = read_file(test::fixture("good"));
  const test::Folder folder;
  const auto file = folder.path() / "good.so";
  for (const std::size_t size : {std::size_t{4}, std::size_t{20}, std::size_t{64}, std::size_t{100}, std::size_t{500},
                                 whole.size() / 2, whole.size() - 1}) {
    INFO("bytes: " << size);
    write_file(file, std::string_view(whole).substr(0, size));
    CHECK_THAT(test::error_of([&] { read_abi_tag(file); }), Contains("good.so: is cut short"));
  }
  write_file(file, whole);
  CHECK(read_abi_tag(file) == plugin_abi_tag("host"));
}

}  // namespace abi_test
