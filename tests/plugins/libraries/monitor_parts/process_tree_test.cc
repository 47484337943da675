#include <capstan/base/text.h>
#include <capstan/monitor_parts/process_tree.h>
#include <capstan_catch.h>
#include <unistd.h>

#include "support/folder.h"

namespace process_tree_test {

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

TEST_CASE("this process takes memory and addresses") {
  const auto use = process_tree_use({::getpid()});
  CHECK(use.resident > 1'000'000);
  CHECK(use.addressed >= use.resident);
}

}  // namespace process_tree_test
