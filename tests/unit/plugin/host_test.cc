#include <capstan/plugin/host.h>

#include <capstan_catch.h>
#include <capstan_places.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "plugin/fixtures.h"

namespace host_test {

using namespace capstan;
using plugin::Host;
namespace fs = std::filesystem;

TEST_CASE("a plugin is found in a folder by kind, flat, or by its path, and loaded once") {
  Host by_kind({test::fixture_folder()});
  const auto& good = by_kind.load("monitor", "good");
  CHECK(good.file == test::fixture("good").string());
  CHECK(&by_kind.load("monitor", "good") == &good);
  by_kind.load("monitor", "stripped");
  CHECK(by_kind.registry().all().size() == 2);
  CHECK(by_kind.registry().find("monitor", "good") == &good);

  Host flat({test::fixture_folder() / "monitor"});
  CHECK(flat.load("monitor", "good").name == "good");

  Host none;
  const auto relative = fs::relative(test::fixture("good")).string();
  const auto& given = none.load("monitor", "good", relative);
  CHECK(given.file == test::fixture("good").string());
  CHECK(&none.load("monitor", "good", relative) == &given);
}

TEST_CASE("earlier folders win over later ones, and a folder's kind over the folder itself") {
  const test::Folder first;
  fs::create_directories(first.path() / "monitor");
  fs::copy(test::fixture("good"), first.path() / "monitor" / "good.so");
  fs::copy(test::fixture("good"), first.path() / "good.so");
  Host host({first.path(), test::fixture_folder()});
  CHECK(host.load("monitor", "good").file == (first.path() / "monitor" / "good.so").string());
  CHECK(host.load("monitor", "stripped").file == test::fixture("stripped").string());
}

TEST_CASE("a plugin that comes with Capstan is found last: a folder with one of its name wins") {
  Host host({test::fixture_folder()});
  const auto installed = Host::builtin_folder() / "data" / "squad.so";
  CHECK(host.load("data", "squad").file == installed.string());
  const test::Folder folder;
  fs::create_directories(folder.path() / "data");
  fs::copy(installed, folder.path() / "data" / "squad.so");
  Host nearer({folder.path()});
  CHECK(nearer.load("data", "squad").file == (folder.path() / "data" / "squad.so").string());
}

TEST_CASE("a file of any kind, and a type of the program itself") {
  Host host;
  const auto& good = host.load_file(fs::relative(test::fixture("good")));
  CHECK(good.kind == "monitor");
  CHECK(&host.load("monitor", "good") == &good);
  CHECK(test::error_of([&] { host.load_file("none.so"); }) ==
        (fs::current_path() / "none.so").string() +
            ": the plugin's file does not exist\n    fix: build it, or correct the path");
  plugin::Registration own;
  own.kind = "data";
  own.name = "own";
  own.file = "this program";
  host.add(own);
  CHECK(host.load("data", "own").file == "this program");
  CHECK_THAT(test::error_of([&] { host.add(own); }), Contains("data plugin 'own'"));
}

TEST_CASE("a plugin that is not there names every path tried and the nearest name") {
  Host host({test::fixture_folder()});
  const auto message = test::error_of([&] { host.load("monitor", "goood"); });
  CHECK_THAT(message, Contains("there is no monitor plugin 'goood'; looked for\n"));
  CHECK_THAT(message, Contains((test::fixture_folder() / "monitor/goood.so").string() + "\n"));
  CHECK_THAT(message, Contains((test::fixture_folder() / "goood.so").string() + "\n"));
  CHECK_THAT(message, Contains((Host::builtin_folder() / "monitor/goood.so").string() + "\n"));
  CHECK_THAT(message, Contains("fix: did you mean 'good'?"));
  CHECK_THAT(test::error_of([&] { host.load("kindless", "x"); }), Contains("CAPSTAN_PLUGIN_PATH"));
  CHECK_THAT(
      test::error_of([&] { host.load("monitor", "good", "/nowhere/good.so"); }),
      Contains("there is no monitor plugin 'good'; looked for\n      /nowhere/good.so") && !Contains("did you mean"));
}

TEST_CASE("the built-in plugins lie next to libcapstan.so") {
  CHECK(Host::builtin_folder() == fs::canonical(fs::path(CAPSTAN_BINARY_DIR) / "lib") / "capstan" / "plugins");
}

TEST_CASE("names that would leave the folder, and files of another name, are refused") {
  Host host({test::fixture_folder()});
  CHECK_THAT(test::error_of([&] { host.load("monitor", "../monitor/good"); }),
             Contains("'../monitor/good' is no name of a monitor plugin"));
  CHECK_THAT(test::error_of([&] { host.load("monitor", "nice", test::fixture("good")); }),
             Contains("good.so: is given as the file of monitor plugin 'nice', but has another name") &&
                 Contains("[monitor.good]"));
}

TEST_CASE("two files of one kind and name are refused with both files") {
  Host host({test::fixture_folder()});
  host.load("monitor", "twin");
  const auto second = (test::fixture_folder() / "twin" / "twin.so").string();
  CHECK(test::error_of([&] { host.load("monitor", "twin", second); }) ==
        second + ": is a second monitor plugin 'twin'; the first is " + test::fixture("twin").string() +
            "\n    fix: keep one of the two files, or rename one");
}

TEST_CASE("discovery lists what can be used, and the reason for what cannot") {
  Host host({test::fixture_folder()});
  const auto found = host.discover();
  const auto named = [&](const std::string& file) {
    const auto at = std::find_if(found.begin(), found.end(), [&](const auto& one) { return one.file == file; });
    REQUIRE(at != found.end());
    return *at;
  };
  const auto good = named(test::fixture("good").string());
  CHECK(good.problem.empty());
  REQUIRE(good.registration);
  CHECK(good.registration->version == "1.2");
  const auto broken = named(test::fixture("no_entry").string());
  CHECK_FALSE(broken.registration);
  CHECK(broken.kind == "monitor");
  CHECK_THAT(broken.problem, Contains("no_entry.so: has no entry"));
  CHECK_THAT(named((test::fixture_folder() / "twin" / "twin.so").string()).problem,
             Contains("is a twin plugin") || Contains("a twin plugin is needed here"));

  const auto again = host.discover();
  CHECK(again.size() == found.size());
  CHECK(host.load("monitor", "good").file == good.file);
}

TEST_CASE("a GPU module next to its plugin is no plugin of its own") {
  const test::Folder folder;
  fs::copy(test::fixture("good"), folder.path() / "good.so");
  fs::copy(test::fixture("good"), folder.path() / "good_cuda.so");
  Host host({folder.path()});
  const auto found = host.discover();
  CHECK(std::count_if(found.begin(), found.end(),
                      [&](const auto& one) { return fs::path(one.file).parent_path() == folder.path(); }) == 1);
}

TEST_CASE("in-process ranks may load at the same time, each with its own host") {
  std::vector<std::thread> ranks;
  std::atomic<int> loaded = 0;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([&] {
      Host host({test::fixture_folder()});
      for (const char* name : {"good", "stripped", "twin"}) loaded += host.load("monitor", name).name == name ? 1 : 0;
    });
  }
  for (auto& rank : ranks) rank.join();
  CHECK(loaded == 12);
}

}  // namespace host_test
