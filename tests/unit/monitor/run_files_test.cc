// Names of files that options of monitors give.
#include <capstan/monitor/run_files.h>
#include <capstan_catch.h>

#include <string>

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
  for (const auto* own :
       {"config.toml", "metrics.jsonl", "metrics-1.jsonl", "summary.json", "launch.json", "slurm-job", "running",
        "running.host.7", "predictions-eval.json", "dump-step-3.json", "checkpoints", "weights", "model", "evaluations",
        "traces", "wandb", "summary.json.tmp4711", "model.tmp-7.0", "x.tmp"}) {
    CHECK(is_name_of_run(own));
    CHECK(file_name_fault(own) == "is \"" + std::string(own) + "\", which the run gives to a file of its own");
  }
  for (const auto* other : {"metrics.csv", "metrics-1.csv", "report.html", "x.tmp.csv", "run", "dump.json"})
    CHECK_FALSE(is_name_of_run(other));
}
