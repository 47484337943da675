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

std::string quickstart_in(const fs::path& folder) {
  return cat("extends = \"", CAPSTAN_SOURCE_DIR, "/configs/quickstart.toml\"\n[run]\nname = \"tracked\"\ndir = \"",
             folder.string(), "\"\n[train]\neval_every = 4\ngenerate_samples = 0\ngenerate_train_samples = 0\n");
}

// A run's, of each step.
std::vector<double> losses_in(const fs::path& metrics) {
  std::vector<double> losses;
  for (const auto& line : split(read_file(metrics), '\n')) {
    const auto json = try_parse_json(line);
    if (json.is_object() && json.contains("grad_norm")) losses.push_back(json.at("loss").get<double>());
  }
  return losses;
}

// One run with all of them at once, on two ranks: 12 steps, an evaluation every 4.
class TrackedRun {
 public:
  TrackedRun() {
    const auto config = scratch_.write(
        "a.toml",
        cat(quickstart_in(scratch_.path()), "max_steps = 12\n",
            "[monitor.csv]\n[monitor.tensorboard]\n[monitor.mlflow]\n[monitor.utilisation]\n[monitor.train_speed]\n",
            "[monitor.wandb]\nproject = \"workshop\"\nsystem_interval_s = 0\n"));
    run_program(fs::path(CAPSTAN_BINARY_DIR) / "bin/capstan", {"run", config, "-n", "2"});
    losses_ = losses_in(folder() / "metrics.jsonl");
    REQUIRE(losses_.size() == 12);
  }
  fs::path folder() const { return scratch_.path() / "tracked"; }
  const std::vector<double>& losses() const { return losses_; }
  Json read(const std::string& kind, const fs::path& what) const {
    const auto out = scratch_.path() / (kind + ".json");
    run_python("trackers.py", {kind, what.string(), out.string()}, parity_python_4());
    return Json::parse(read_file(out));
  }
  fs::path wandb() const {
    for (const auto& entry : fs::directory_iterator(folder() / "wandb")) {
      if (entry.is_directory()) return entry.path();
    }
    return {};
  }

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

// The second start is offline: the third sends what it has left too.
TEST_CASE("a run is sent by wandb's own client, also where it resumes", "[monitor]") {
  const Scratch scratch;
  const auto python = parity_python_4();
  const auto config =
      scratch.write("a.toml", cat(quickstart_in(scratch.path()), "[checkpoint]\nevery_steps = 12\nresume = \"auto\"\n",
                                  "[monitor.wandb]\nproject = \"workshop\"\npython = \"", python.string(), "\"\n"));
  const auto out = scratch.path() / "sent.json";
  std::vector<std::string> arguments{out.string(), (fs::path(CAPSTAN_BINARY_DIR) / "bin/capstan").string()};
  for (const auto& [mode, steps] : {std::pair("online", 12), std::pair("offline", 14), std::pair("online", 16)}) {
    if (steps > 12) arguments.emplace_back("--");
    for (const auto& word : {std::string("run"), config, std::string("-n"), std::string("2"),
                             cat("monitor.wandb.mode=", mode), cat("train.max_steps=", steps)})
      arguments.push_back(word);
  }
  run_python("wandb_online.py", arguments, python);
  const auto found = Json::parse(read_file(out));
  for (const auto& start : found.at("starts")) {
    INFO(start.at("output").get<std::string>());
    CHECK(start.at("status") == 0);
  }
  REQUIRE(found.at("runs").size() == 1);
  const auto& run = (*found.at("runs").begin());
  CHECK(run.at("name") == "tracked");
  CHECK(run.at("project") == "workshop");
  CHECK(run.at("config").at("train.max_steps").at("value") == 16);
  CHECK(run.at("starts") == 2);
  CHECK(run.at("exit") == 0);
  std::vector<double> losses;
  std::int64_t last = -1;
  for (const auto& row : run.at("rows")) {
    CHECK(row.at("_step").get<std::int64_t>() > last);
    last = row.at("_step").get<std::int64_t>();
    if (row.contains("train/loss")) losses.push_back(row.at("train/loss").get<double>());
  }
  CHECK(losses == losses_in(scratch.path() / "tracked/metrics.jsonl"));
  CHECK(losses.size() == 16);
  int logs = 0;
  for (const auto& entry : fs::recursive_directory_iterator(scratch.path() / "tracked")) {
    if (!entry.is_regular_file()) continue;
    INFO(entry.path().string());
    CHECK(read_file(entry.path()).find(found.at("key").get<std::string>()) == std::string::npos);
    if (entry.path().extension() != ".wandb") continue;
    ++logs;
    CHECK(fs::exists(entry.path().string() + ".synced"));
  }
  CHECK(logs == 3);
}

}  // namespace trackers_test
