#include <capstan/monitor_parts/file_name.h>
#include <capstan_catch.h>

#include <string>

namespace file_name_test {

using namespace capstan::monitor;

TEST_CASE("a monitor's file has a bare name") {
  for (const auto* fine : {"metrics.csv", "my table.csv", "metrics.json", "config.toml.csv", ".hidden", "Zahlen-ü.csv"})
    CHECK(file_name_fault(fine).empty());
  CHECK(file_name_fault("/etc/passwd") == "is \"/etc/passwd\", which is a path");
  CHECK(file_name_fault("../../x.csv") == "is \"../../x.csv\", which is a path");
  CHECK(file_name_fault("logs/x.csv") == "is \"logs/x.csv\", which is a path");
  CHECK(file_name_fault("..") == "is \"..\", which is a folder");
  CHECK(file_name_fault("").find("is empty") == 0);
  CHECK(file_name_fault("a\nb") == "is \"a\\nb\", which is no plain text");
  CHECK(file_name_fault(std::string(300, 'x')) == "is a name of 300 bytes; a file's has at most 200");
}

TEST_CASE("a monitor's file has no name that a run gives to a file of its own") {
  for (const auto* own : {"config.toml", "running.host.7", "traces", "summary.json.tmp4711"})
    CHECK(file_name_fault(own) == "is \"" + std::string(own) + "\", which the run gives to a file of its own");
}

}  // namespace file_name_test
