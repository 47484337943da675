// The same configuration on GPUs as on the CPU, over NCCL. Hidden from a plain run: test_end_to_end '[.gpu]'.
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <algorithm>
#include <iostream>

#include "end_to_end/gpus.h"
#include "end_to_end/program.h"
#include "end_to_end/results.h"

namespace gpu_test {

using namespace end_to_end;
using capstan::cat;

namespace {

// Sizes that a GPU's kernels split into several tiles and whose rows are aligned for bf16, 20 steps.
std::string config(const std::string& more) {
  return small_config({{"hidden_size", "hidden_size = 48"},
                       {"ff_dim", "ff_dim = 192"},
                       {"max_steps", "max_steps = 20"},
                       {"micro_batch", ""},
                       {"global_batch", "global_batch = 48"},
                       {"lr", "lr = 3e-3"}},
                      more);
}

struct Result {
  Metrics metrics;
  Json summary;
  std::map<std::string, at::Tensor> weights;
};

// With these strategy tables.
Result run_with(const Workspace& work, const std::string& name, int ranks, std::vector<std::string> overrides,
                const std::string& tables) {
  const auto file = work.write(name + ".toml", config(tables));
  overrides.insert(overrides.begin(), {"run", file, "run.name=" + name});
  overrides.insert(overrides.end(), {"-n", std::to_string(ranks)});
  const auto ran = work.run(overrides);
  INFO(ran.all());
  REQUIRE(ran.code == 0);
  const auto folder = work.folder() / "runs" / name;
  return {read_metrics(folder), read_json(folder / "summary.json"), read_weights(folder)};
}

Result run(const Workspace& work, const std::string& name, int ranks, const std::vector<std::string>& overrides,
           const std::string& mode) {
  return run_with(work, name, ranks, overrides, mode.empty() ? "" : "[strategy.fsdp]\nmode = \"" + mode + "\"\n");
}

// CPU and GPU sum in other orders and have other exp, tanh and rsqrt: some 1e-6 of a logit in float32, which the loss
// (a mean over some 300 target tokens) shows less. AdamW then amplifies the difference of gradients that are close to
// zero, by at most 2 lr a weight and step. Seen on one to four H200s: losses within 3.6e-7, gradient norms
// (quickstart's model) within 4.5e-6.
constexpr double float32_tolerance = 2e-5;
// bf16 keeps 8 bits: a relative 2^-9 for each rounding of an activation. The loss averages over target tokens, but the
// roundings of one weight copy are common to all of them. Seen on one and two H200s: 1e-3.
constexpr double bf16_tolerance = 5e-3;
// fp16 keeps 11 bits: an eighth of that.
constexpr double fp16_tolerance = bf16_tolerance / 8;

// Every rank held at least its part of the masters, the gradients and AdamW's two moments, in float32.
void check_memory(const Result& result, int world, bool sharded) {
  const auto& memory = result.summary.at("peak_memory_bytes");
  REQUIRE(memory.size() == static_cast<std::size_t>(world));
  const auto parameters = result.summary.at("parameters").get<double>() / (sharded ? world : 1);
  for (const auto& rank : memory) {
    CHECK(rank.at("device_setup").get<double>() > 0.9 * 4 * parameters);  // pieces are not quite even
    CHECK(rank.at("device").get<double>() > 0.9 * 16 * parameters);
  }
}

void check_trained(const Result& result) {
  REQUIRE(result.metrics.steps.size() == 20);
  CHECK(result.metrics.steps.back().at("loss") < 0.8 * result.metrics.steps.front().at("loss").get<double>());
}

}  // namespace

TEST_CASE("one, two and four GPUs have the losses of the CPU", "[.gpu]") {
  const std::string accumulation = GENERATE(as<std::string>(), "1", "4");
  if (too_few_gpus(1)) return;
  const Workspace work;
  // Without dropout attention takes the fused path, with it the unfused one; the masks are the CPU's.
  const std::vector<std::string> overrides{"train.accumulation=" + accumulation,
                                           accumulation == "1" ? "model.dropout=0.0" : "model.dropout=0.1"};
  const auto reference = run(work, "cpu", 1, overrides, "");
  check_trained(reference);
  auto on_gpu = overrides;
  on_gpu.emplace_back("run.device=cuda");
  for (const int world : {1, 2, 4}) {
    if (too_few_gpus(world)) continue;
    for (const std::string mode : {"full_shard", "no_shard"}) {
      INFO("accumulation " << accumulation << " GPUs " << world << " " << mode);
      const auto result = run(work, cat(mode, "-", world), world, on_gpu, mode);
      CHECK(result.summary.at("device") == "cuda");
      CHECK(result.summary.at("backend") == (world == 1 ? "none" : "nccl"));
      check_trained(result);
      check_memory(result, world, mode == "full_shard");
      const double losses = distance(result.metrics.all("loss"), reference.metrics.all("loss"));
      std::cout << "GPUs " << world << " " << mode << " accumulation " << accumulation << ": losses differ by "
                << losses << std::endl;
      CHECK(losses < float32_tolerance);
      CHECK(result.metrics.steps[0].at("grad_norm").get<double>() ==
            Approx(reference.metrics.steps[0].at("grad_norm").get<double>()).epsilon(float32_tolerance));
      CHECK(result.metrics.all("target_tokens") == reference.metrics.all("target_tokens"));
    }
  }
}

TEST_CASE("bf16 on a GPU stays near float32", "[.gpu]") {
  if (too_few_gpus(1)) return;
  const Workspace work;
  const auto reference = run(work, "cpu", 1, {"train.accumulation=4"}, "");
  for (const int world : {1, 2}) {
    if (too_few_gpus(world)) continue;
    INFO("GPUs " << world);
    const auto result = run(work, cat("bf16-", world), world,
                            {"train.accumulation=4", "train.precision=bf16", "run.device=cuda"}, "full_shard");
    check_trained(result);
    const double losses = distance(result.metrics.all("loss"), reference.metrics.all("loss"));
    std::cout << "GPUs " << world << " bf16: losses differ by " << losses << std::endl;
    CHECK(losses < bf16_tolerance);
    CHECK(losses > 0);
  }
}

TEST_CASE("fp16 on a GPU stays near float32, with a loss scale that moves and one that overflows at first", "[.gpu]") {
  if (too_few_gpus(1)) return;
  const Workspace work;
  const auto reference = run(work, "cpu", 1, {"train.accumulation=4"}, "");
  for (const int world : {1, 2}) {
    if (too_few_gpus(world)) continue;
    INFO("GPUs " << world);
    const std::vector<std::string> fp16{"train.accumulation=4", "train.precision=fp16", "run.device=cuda"};
    auto moving = fp16;
    moving.insert(moving.end(), {"train.loss_scale_init=256", "train.loss_scale_window=8"});
    const auto result = run(work, cat("fp16-", world), world, moving, "full_shard");
    check_trained(result);
    const auto scales = result.metrics.all("loss_scale");
    CHECK(scales.front() == 256);
    CHECK(scales.back() == 1024);
    const double losses = distance(result.metrics.all("loss"), reference.metrics.all("loss"));
    std::cout << "GPUs " << world << " fp16: losses differ by " << losses << std::endl;
    CHECK(losses < fp16_tolerance);
    CHECK(losses > 0);
    auto large = fp16;
    large.emplace_back("train.loss_scale_init=1e9");  // no gradient above 6.6e-5 is a float16 then
    const auto overflowed = run(work, cat("fp16-large-", world), world, large, "full_shard");
    CHECK(overflowed.metrics.steps.front().contains("skipped"));
    CHECK_FALSE(overflowed.metrics.steps.back().contains("skipped"));
    CHECK(overflowed.metrics.steps.back().at("loss") < overflowed.metrics.steps.front().at("loss"));
  }
}

TEST_CASE("deterministic: full_shard and no_shard are bit-equal on two GPUs, and so is a second run", "[.gpu]") {
  if (too_few_gpus(2)) return;
  const std::string precision = GENERATE(as<std::string>(), "fp32", "bf16");
  const std::string reduce = GENERATE(as<std::string>(), "step", "micro_step");
  INFO(precision << " " << reduce);
  const Workspace work;
  const std::vector<std::string> overrides{"run.device=cuda", "run.deterministic=true", "train.accumulation=2",
                                           "train.precision=" + precision, "train.reduce=" + reduce};
  const auto sharded = run(work, "full", 2, overrides, "full_shard");
  for (const std::string mode : {"no_shard", "full_shard"}) {
    INFO(mode);
    const auto other = run(work, "again-" + mode, 2, overrides, mode);
    CHECK(sharded.metrics.all("loss") == other.metrics.all("loss"));
    CHECK(sharded.metrics.all("grad_norm") == other.metrics.all("grad_norm"));
    CHECK(bit_equal(sharded.weights, other.weights));
  }
}

TEST_CASE("deterministic: recomputed units and regions change no bit on GPUs", "[.gpu]") {
  if (too_few_gpus(1)) return;
  const std::string precision = GENERATE(as<std::string>(), "fp32", "bf16");
  const Workspace work;
  const std::vector<std::string> overrides{"run.device=cuda",
                                           "run.deterministic=true",
                                           "train.accumulation=2",
                                           "model.dropout=0.1",
                                           "train.precision=" + precision,
                                           "model.num_layers=6"};  // the inputs of the last two do not leave the GPU
  for (const int world : {1, 2}) {
    if (too_few_gpus(world)) continue;
    const auto plain = run(work, cat("plain-", world), world, overrides, "full_shard");
    check_trained(plain);
    int number = 0;
    for (const std::string option :
         {"every=1", "every=2", "regions=[\"attention\"]", "regions=[\"mlp\"]", "offload=1.0", "offload=0.5"}) {
      INFO(precision << " GPUs " << world << " " << option);
      auto with = overrides;
      with.push_back("strategy.recompute." + option);
      const auto other = run(work, cat("recompute-", world, "-", number++), world, with, "full_shard");
      CHECK(other.metrics.all("loss") == plain.metrics.all("loss"));
      CHECK(other.metrics.all("grad_norm") == plain.metrics.all("grad_norm"));
      CHECK(bit_equal(other.weights, plain.weights));
    }
  }
}

// Kept are fused kernels' results, and with dropout on probabilities there are none.
TEST_CASE("deterministic: attention that is kept changes no bit on GPUs", "[.gpu]") {
  if (too_few_gpus(1)) return;
  const std::string precision = GENERATE(as<std::string>(), "fp32", "bf16");
  const Workspace work;
  const std::vector<std::string> overrides{
      "run.device=cuda",    "run.deterministic=true",    "train.accumulation=2",        "model.dropout=0.1",
      "model.num_layers=6", "model.attention_dropout=0", "train.precision=" + precision};
  const auto once = run(work, "once", 1, overrides, "full_shard");
  check_trained(once);
  for (const std::string offload : {"0", "1"}) {
    INFO(precision << " offload " << offload);
    auto with = overrides;
    with.insert(with.end(), {"strategy.recompute.keep_attention=true", "strategy.recompute.offload=" + offload});
    const auto kept = run(work, "kept-" + offload, 1, with, "full_shard");
    CHECK(kept.metrics.all("loss") == once.metrics.all("loss"));
    CHECK(kept.metrics.all("grad_norm") == once.metrics.all("grad_norm"));
    CHECK(bit_equal(kept.weights, once.weights));
  }
}

TEST_CASE("feed-forwards by tiles learn on GPUs what those of whole rows do", "[.gpu]") {
  if (too_few_gpus(1)) return;
  const Workspace work;
  const std::vector<std::string> overrides{"run.device=cuda", "train.precision=fp32", "model.dropout=0.1"};
  const auto plain = run(work, "plain", 1, overrides, "full_shard");
  check_trained(plain);
  const std::vector<std::string> regions{"strategy.recompute.regions=[\"attention\"]"},
      units{"strategy.recompute.every=1"};
  int number = 0;
  for (const auto& with : {regions, units}) {
    auto all = overrides;
    all.insert(all.end(), with.begin(), with.end());
    all.insert(all.end(), {"strategy.recompute.tile_tokens=200", "strategy.recompute.offload=1.0"});
    const auto tiled = run(work, cat("tiles-", number++), 1, all, "full_shard");
    CHECK(distance(tiled.metrics.all("loss"), plain.metrics.all("loss")) < float32_tolerance);
    CHECK(tiled.metrics.all("target_tokens") == plain.metrics.all("target_tokens"));
  }
}

namespace {

// A way to shard; `bits`: its sums are those of no_shard under `deterministic`, and its updates run on the GPU.
struct Sharding {
  std::string name;
  std::string tables;
  bool bits = true;
  int least_gpus = 2;
};

const std::vector<Sharding>& shardings() {
  static const std::vector<Sharding> list{
      {"zero-0", "[strategy.zero]\nstage = 0\n"},
      {"zero-1", "[strategy.zero]\nstage = 1\n"},
      {"zero-2", "[strategy.zero]\nstage = 2\nbucket_size = 60000\n"},
      {"zero-3", "[strategy.zero]\nstage = 3\n"},
      {"zero-3-no-overlap", "[strategy.zero]\nstage = 3\noverlap = false\n"},
      {"zero-1-offload", "[strategy.zero]\nstage = 1\noffload_optimizer = \"cpu\"\n", false},
      {"zero-2-offload", "[strategy.zero]\nstage = 2\noffload_optimizer = \"cpu\"\n", false},
      {"zero-3-offload", "[strategy.zero]\nstage = 3\noffload_optimizer = \"cpu\"\noffload_param = \"cpu\"\n", false},
      {"zero-3-offload-unpinned", "[strategy.zero]\nstage = 3\noffload_optimizer = \"cpu\"\npin_memory = false\n",
       false},
      {"zero-2-offload-half", "[strategy.zero]\nstage = 2\noffload_optimizer = \"cpu\"\noffload_ratio = 0.5\n", false},
      {"shard_grad_op", "[strategy.fsdp]\nmode = \"shard_grad_op\"\n"},
      {"hybrid", "[strategy.fsdp]\nmode = \"hybrid_shard\"\nshard_size = 2\n", false, 4},
      {"hybrid-1", "[strategy.fsdp]\nmode = \"hybrid_shard\"\nshard_size = 1\n", false},
      {"unlimited", "[strategy.fsdp]\nlimit_all_gathers = false\nbackward_prefetch = \"post\"\n"},
      {"wrap-2-no-prefetch", "[strategy.fsdp]\nwrap = 2\nforward_prefetch = false\nbackward_prefetch = \"none\"\n"},
      {"reshard-2", "[strategy.fsdp]\nreshard_size = 2\n", true, 4},
      {"cpu_offload", "[strategy.fsdp]\ncpu_offload = true\n", false},
      {"recompute", "[strategy.fsdp]\n[strategy.recompute]\n"},
      {"zero-2-recompute", "[strategy.zero]\nstage = 2\n[strategy.recompute]\nregions = [\"attention\"]\n"},
  };
  return list;
}

}  // namespace

TEST_CASE("every way to shard learns the same on the GPUs that are there", "[.gpu][sharding]") {
  if (too_few_gpus(2)) return;
  const int world = visible_gpus() >= 4 ? 4 : 2;
  const Workspace work;
  const std::vector<std::string> overrides{"train.accumulation=4", "model.dropout=0.1"};
  const auto reference = run(work, "cpu", 1, overrides, "");
  auto on_gpu = overrides;
  on_gpu.emplace_back("run.device=cuda");
  double worst = 0;
  for (const auto& sharding : shardings()) {
    if (world < sharding.least_gpus) continue;
    INFO("GPUs " << world << " " << sharding.name);
    const auto result = run_with(work, cat(sharding.name, "-", world), world, on_gpu, sharding.tables);
    const double losses = distance(result.metrics.all("loss"), reference.metrics.all("loss"));
    worst = std::max(worst, losses);
    CHECK(losses < float32_tolerance);
  }
  std::cout << "GPUs " << world << ": losses differ from the CPU's by at most " << worst << std::endl;
}

TEST_CASE("deterministic: ways to shard are bit-equal on the GPUs that are there", "[.gpu][sharding]") {
  if (too_few_gpus(2)) return;
  const int world = visible_gpus() >= 4 ? 4 : 2;
  const Workspace work;
  for (const std::string reduce : {"step", "micro_step"}) {
    const std::vector<std::string> overrides{"run.device=cuda", "run.deterministic=true", "train.accumulation=2",
                                             "train.precision=bf16", "train.reduce=" + reduce};
    const auto reference = run(work, "no_shard-" + reduce, world, overrides, "no_shard");
    for (const auto& sharding : shardings()) {
      if (world < sharding.least_gpus || !sharding.bits) continue;
      INFO("GPUs " << world << " reduce " << reduce << " " << sharding.name);
      const auto result = run_with(work, cat(sharding.name, "-", reduce), world, overrides, sharding.tables);
      CHECK(result.metrics.all("loss") == reference.metrics.all("loss"));
      CHECK(result.metrics.all("grad_norm") == reference.metrics.all("grad_norm"));
      CHECK(bit_equal(result.weights, reference.weights));
    }
  }
}

TEST_CASE("deterministic: gradients that pass through host memory are those that stay on the GPUs",
          "[.gpu][sharding]") {
  if (too_few_gpus(2)) return;
  const std::string reduce = GENERATE(as<std::string>(), "step", "micro_step");
  const std::string dtype = GENERATE(as<std::string>(), "fp32", "bf16");
  const std::string stage = GENERATE(as<std::string>(), "2", "3");
  INFO("reduce " << reduce << " in " << dtype << " stage " << stage);
  const Workspace work;
  const std::vector<std::string> overrides{"run.device=cuda", "run.deterministic=true", "train.accumulation=3",
                                           "train.precision=bf16", "train.reduce=" + reduce};
  const auto table = cat("[strategy.zero]\nstage = ", stage, "\nreduce_dtype = \"", dtype, "\"\n");
  const auto offload = table + "offload_optimizer = \"cpu\"\n";
  const auto stays = run_with(work, "stays", 2, overrides, table);
  const auto passes = run_with(work, "passes", 2, overrides, offload);
  // Later steps follow another AdamW's rounding.
  CHECK(passes.metrics.all("loss").front() == stays.metrics.all("loss").front());
  CHECK(passes.metrics.all("grad_norm").front() == stays.metrics.all("grad_norm").front());
  const auto again = run_with(work, "again", 2, overrides, offload);
  CHECK(again.metrics.all("loss") == passes.metrics.all("loss"));
  CHECK(again.metrics.all("grad_norm") == passes.metrics.all("grad_norm"));
  CHECK(bit_equal(again.weights, passes.weights));
}

TEST_CASE("more ranks than GPUs are refused in words", "[.gpu]") {
  if (too_few_gpus(1)) return;
  const Workspace work;
  const auto file = work.write("a.toml", config(""));
  const int gpus = visible_gpus();
  const int ranks = gpus == 1 ? 2 : 2 * gpus;
  Program program(work.folder(), {"run", file, "run.device=cuda", "train.global_batch=" + std::to_string(2 * ranks),
                                  "-n", std::to_string(ranks)});
  const auto ended = program.wait(std::chrono::seconds(100));
  INFO(ended.err);
  REQUIRE_FALSE(ended.timed_out);
  CHECK(ended.code == 1);
  CHECK_THAT(ended.err, Contains(cat("but this machine shows ", gpus, gpus == 1 ? " GPU" : " GPUs")));
}

}  // namespace gpu_test
