#include <capstan/monitor/run_files.h>
#include <capstan_catch.h>

namespace run_files_test {

using namespace capstan::monitor;

TEST_CASE("names that a run gives to files of its own are known") {
  for (const auto* own :
       {"config.toml", "metrics.jsonl", "metrics-1.jsonl", "summary.json", "launch.json", "slurm-job", "running",
        "running.host.7", "predictions-eval.json", "dump-step-3.json", "checkpoints", "weights", "model", "evaluations",
        "traces", "wandb", "summary.json.tmp4711", "model.tmp-7.0", "x.tmp"}) {
    CHECK(is_name_of_run(own));
  }
  for (const auto* other : {"metrics.csv", "metrics-1.csv", "report.html", "x.tmp.csv", "run", "dump.json"})
    CHECK_FALSE(is_name_of_run(other));
}

}  // namespace run_files_test
