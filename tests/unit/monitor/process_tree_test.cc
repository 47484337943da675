#include <capstan/base/text.h>
#include <capstan/monitor/process_tree.h>
#include <capstan_catch.h>
#include <unistd.h>

#include <vector>

#include "support/folder.h"

using namespace capstan::monitor;

namespace {

// proc(5)'s stat, up to field 24.
std::string stat(int process, int parent, int ticks, int addressed, int pages) {
  return capstan::cat(process, " (a b) c) S ", parent, " 0 0 0 0 0 0 0 0 0 ", ticks, " ", ticks, " 0 0 20 0 1 0 100 ",
                      addressed, " ", pages, " 0 0\n");
}

}  // namespace

TEST_CASE("processes and all that they started are added up") {
  const test::Folder proc;
  for (const char* name : {"10", "11", "12", "13", "self"}) std::filesystem::create_directories(proc.path() / name);
  proc.write("10/stat", stat(10, 1, 100, 1000, 1));
  proc.write("11/stat", stat(11, 10, 100, 2000, 2));
  proc.write("12/stat", stat(12, 11, 100, 4000, 4));
  proc.write("13/stat", stat(13, 1, 100, 8000, 8));
  const auto use = process_tree_use({10}, proc.path());
  CHECK(use.resident == 7 * ::sysconf(_SC_PAGESIZE));
  CHECK(use.addressed == 7000);
  CHECK(use.processor_seconds == Approx(600.0 / static_cast<double>(::sysconf(_SC_CLK_TCK))));
  CHECK(process_tree_use({10, 11, 13}, proc.path()).addressed == 15000);  // none counts twice
  CHECK(process_tree_use({99}, proc.path()).resident == 0);
}

TEST_CASE("this process is in memory") {
  const auto use = process_tree_use({::getpid()});
  CHECK(use.resident > 1'000'000);
  CHECK(use.addressed >= use.resident);
  CHECK(resident_bytes() > 1'000'000);
}

TEST_CASE("the peak of this process is at least all that it has said, and stays when memory is given back") {
  constexpr std::size_t size = std::size_t{64} << 20;
  const auto before = resident_bytes();
  std::int64_t most = 0;
  {
    const std::vector<char> filled(size, 1);
    most = resident_bytes();
    CHECK(most >= before + static_cast<std::int64_t>(size / 2));
    CHECK(filled.back() == 1);
  }
  CHECK(peak_resident_bytes() >= most);
  CHECK(peak_resident_bytes() >= resident_bytes());
}
