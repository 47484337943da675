// Checkpoints and pre-flight on GPUs: test_end_to_end '[.gpu]'.
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <iostream>

#include "end_to_end/gpus.h"
#include "end_to_end/program.h"
#include "end_to_end/results.h"

namespace gpu_saving_test {

using namespace end_to_end;
using capstan::cat;

namespace {

// 20 steps, each of a few ms, of a model whose copy to host memory takes as long: 23 million parameters.
std::string config(const std::string& tables) {
  return small_config({{"device", "device = \"cuda\""},
                       {"vocab_size", "vocab_size = 60000"},
                       {"hidden_size", "hidden_size = 384"},
                       {"ff_dim", "ff_dim = 192"},
                       {"max_steps", "max_steps = 20"},
                       {"micro_batch", ""},
                       {"global_batch", "global_batch = 48"}},
                      cat(tables, "[checkpoint]\nevery_steps = 5\nkeep = 0\n"));
}

}  // namespace

namespace {

struct Layout {
  bool alone = false;  // else on as many GPUs as there are, up to four
  const char* precision = "";
  const char* tables = "";
};

// A run to its end, whose folder is returned.
std::filesystem::path run(const Workspace& work, const std::string& file, const std::string& name, int gpus,
                          std::vector<std::string> more) {
  more.insert(more.begin(), {"run", file, "run.deterministic=true", "run.name=" + name, "-n", std::to_string(gpus)});
  const auto ran = work.run(more);
  INFO(ran.all());
  REQUIRE(ran.code == 0);
  return work.folder() / "runs" / name;
}

}  // namespace

TEST_CASE("what is saved during training is what training had: resumed runs are bit-equal on GPUs", "[.gpu][saving]") {
  const auto layout =
      GENERATE(Layout{true, "fp32", ""}, Layout{false, "fp32", "[strategy.fsdp]\nmode = \"full_shard\"\n"},
               Layout{false, "bf16", "[strategy.fsdp]\nmode = \"full_shard\"\n"},
               Layout{false, "bf16_pure", "[strategy.zero]\nstage = 1\n"},
               Layout{false, "bf16", "[strategy.zero]\nstage = 2\noffload_optimizer = \"cpu\"\n"});
  const int gpus = layout.alone ? 1 : visible_gpus() >= 4 ? 4 : 2;
  if (too_few_gpus(gpus)) return;
  INFO("GPUs " << gpus << " " << layout.precision << "\n" << layout.tables);
  const Workspace work;
  const auto file = work.write("a.toml", config(layout.tables));
  const std::string precision = cat("train.precision=", layout.precision);
  const auto straight = run(work, file, "straight", gpus, {precision});
  const auto saved = straight / "checkpoints" / "step-00000010";
  const auto resumed = run(work, file, "resumed", gpus, {precision, "checkpoint.resume=" + saved.string()});
  const auto metrics = read_metrics(straight);
  const auto losses = metrics.all("loss");
  REQUIRE(losses.size() == 20);
  CHECK(read_metrics(resumed).all("loss") == std::vector<double>(losses.begin() + 10, losses.end()));
  CHECK(bit_equal(read_weights(resumed), read_weights(straight)));
  for (const auto& save : metrics.checkpoints) std::cout << layout.precision << ": " << save.dump() << std::endl;
}

TEST_CASE("preflight measures the GPUs that are there, and the gate passes", "[.gpu][preflight]") {
  if (too_few_gpus(2)) return;
  const int gpus = visible_gpus();
  const Workspace work;
  const auto file = work.write("a.toml", small_config({{"device", "device = \"cuda\""}, {"name", "name = \"a\""}}));
  const auto ran = work.run({"preflight", file, "-n", std::to_string(gpus), "preflight.min_bus_gbps=5"});
  std::cout << ran.all() << std::endl;
  CHECK(ran.code == 0);
  CHECK_THAT(ran.out, Contains(cat("connected ", gpus, "/", gpus)) && Contains("backend nccl"));
  CHECK_THAT(ran.out, Contains("Measured AllReduce BW: ") && Contains("links: "));
  CHECK_THAT(ran.out, Contains("\npreflight: PASS: ") || Contains("\npreflight: WARN: "));
  const auto json = read_json(work.folder() / "runs/a-preflight/preflight.json");
  CHECK(json.at("ranks").size() == static_cast<std::size_t>(gpus));
  for (const auto& measured : json.at("collectives")) CHECK(measured.at("wrong").empty());
}

TEST_CASE("the gate ends a run on GPUs that reaches less than it asks for", "[.gpu][preflight]") {
  if (too_few_gpus(2)) return;
  const Workspace work;
  const auto file = work.write("a.toml", small_config({{"device", "device = \"cuda\""}}));
  const int gpus = visible_gpus();
  const auto ran = work.run({"run", file, "-n", std::to_string(gpus), cat("train.global_batch=", 4 * gpus),
                             "preflight.before_run=gate", "preflight.min_bus_gbps=1e9"});
  INFO(ran.all());
  CHECK(ran.code == 46);
  CHECK_THAT(ran.out, Contains("Bandwidth below threshold – aborting\npreflight: FAIL: all-reduce over all ranks"));
}

}  // namespace gpu_saving_test
