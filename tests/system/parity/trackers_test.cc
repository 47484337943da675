// What monitors write for other tools, read by those tools: TensorBoard, wandb, MLflow, Python's csv.
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <set>

#include "checkpoint/scratch.h"
#include "parity/python.h"

namespace trackers_test {

using namespace capstan;
namespace fs = std::filesystem;

namespace {

// One run with all of them at once, on two ranks: 12 steps, an evaluation every 4.
class TrackedRun {
 public:
  TrackedRun() {
    const auto config = scratch_.write(
        "a.toml",
        cat("extends = \"", CAPSTAN_SOURCE_DIR, "/configs/quickstart.toml\"\n", "[run]\nname = \"tracked\"\ndir = \"",
            scratch_.path().string(), "\"\n",
            "[train]\nmax_steps = 12\neval_every = 4\ngenerate_samples = 0\ngenerate_train_samples = 0\n",
            "[monitor.csv]\n[monitor.tensorboard]\n[monitor.mlflow]\n[monitor.utilisation]\n[monitor.train_speed]\n",
            "[monitor.wandb]\nproject = \"workshop\"\nsystem_interval_s = 0\n"));
    run_program(fs::path(CAPSTAN_BINARY_DIR) / "bin/capstan", {"run", config, "-n", "2"});
    for (const auto& line : split(read_file(folder() / "metrics.jsonl"), '\n')) {
      const auto json = try_parse_json(line);
      if (json.is_object() && json.contains("grad_norm")) losses_.push_back(json.at("loss").get<double>());
    }
    REQUIRE(losses_.size() == 12);
  }
  fs::path folder() const { return scratch_.path() / "tracked"; }
  const std::vector<double>& losses() const { return losses_; }
  Json read(const std::string& kind, const fs::path& what) const {
    const auto out = scratch_.path() / (kind + ".json");
    run_python("trackers.py", {kind, what.string(), out.string()}, parity_python_4());
    return Json::parse(read_file(out));
  }
  fs::path wandb() const { return fs::directory_iterator(folder() / "wandb")->path(); }

 private:
  Scratch scratch_;
  std::vector<double> losses_;
};

void check_wandb(const TrackedRun& run) {
  const auto found = run.read("wandb", run.wandb());
  CHECK(found.at("run").at("name") == "tracked");
  CHECK(found.at("run").at("project") == "workshop");
  CHECK(found.at("config").at("train.max_steps") == 12);
  CHECK(found.at("config").at("strategy.fsdp.mode") == "full_shard");
  CHECK(found.at("exit") == 0);
  CHECK(found.at("records").front() == Json({1, "header"}));
  CHECK(found.at("records").back().at(1) == "footer");
  CHECK(found.at("metrics").at(1) == Json({"*", "train/global_step"}));
  CHECK(found.at("stats").at(0).contains("proc.memory.rssMB"));
  std::vector<double> losses, evaluations;
  std::int64_t rows = 0;
  for (const auto& row : found.at("history")) {
    CHECK(row.at("_step") == rows++);
    if (row.contains("train/loss")) losses.push_back(row.at("train/loss").get<double>());
    if (row.contains("eval/loss")) evaluations.push_back(row.at("train/global_step").get<std::int64_t>());
  }
  CHECK(losses == run.losses());
  CHECK(evaluations == std::vector<double>{4, 8, 12});
  const auto& summary = found.at("summary");
  for (const char* name :
       {"train/loss", "eval/loss", "train_loss", "train/samples_per_second_mean", "avg_mem_rss_MB"}) {
    INFO(name);
    CHECK(summary.at(name).is_number());
  }
  CHECK(run.read("wandb-sync", run.wandb()).size() == 1);
}

void check_tensorboard(const TrackedRun& run) {
  const auto found = run.read("tensorboard", run.folder() / "tensorboard");
  const auto& losses = found.at("scalars").at("train/loss");
  REQUIRE(losses.size() == 12);
  for (std::size_t i = 0; i < losses.size(); ++i) {
    CHECK(losses.at(i).at(0) == i + 1);
    CHECK(losses.at(i).at(1).get<double>() == Approx(run.losses().at(i)));  // float32
  }
  CHECK(found.at("scalars").at("eval/loss").size() == 3);
  CHECK(found.at("texts").at("config/text_summary").get<std::string>().find("strategy.fsdp.mode") != std::string::npos);
}

void check_mlflow(const TrackedRun& run) {
  const auto found = run.read("mlflow", run.folder() / "mlruns");
  const auto& one = found.at("capstan").at(0);
  CHECK(one.at("name") == "tracked");
  CHECK(one.at("status") == "FINISHED");
  CHECK(one.at("params").at("train.max_steps") == "12");
  const auto& losses = one.at("metrics").at("train/loss");
  REQUIRE(losses.size() == 12);
  CHECK(losses.at(11).at(0) == 12);
  CHECK(losses.at(11).at(1) == run.losses().at(11));
}

void check_csv(const TrackedRun& run) {
  const auto rows = run.read("csv", run.folder() / "metrics.csv");
  std::vector<double> losses;
  std::set<double> evaluated;
  for (const auto& row : rows) {
    if (row.contains("train/loss")) losses.push_back(row.at("train/loss").get<double>());
    if (row.contains("eval/loss")) evaluated.insert(row.at("step").get<double>());
  }
  CHECK(losses == run.losses());
  CHECK(evaluated == std::set<double>{4, 8, 12});
}

}  // namespace

TEST_CASE("what monitors write is read whole by the tools that it is for", "[monitor]") {
  const TrackedRun run;
  check_wandb(run);
  check_tensorboard(run);
  check_mlflow(run);
  check_csv(run);
}

}  // namespace trackers_test
