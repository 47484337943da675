// CUDA graphs on two GPUs: micro-steps, between whose graphs ranks sum gradients, and steps that generate tokens, with
// what ranks that split layers send each other. Hidden from a plain run: test_end_to_end '[.gpu]'.
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "end_to_end/gpus.h"
#include "end_to_end/program.h"
#include "end_to_end/results.h"

namespace gpu_graphs_test {

using namespace end_to_end;
using capstan::cat;

namespace {

// A vocabulary larger than both ranks' micro-batches, so that a tied table's lookups are exchanged as rows.
std::string config(const std::string& strategies) {
  return cat(
      "[run]\nname = \"x\"\nseed = 3\ndevice = \"cuda\"\n", "[model]\nplugin = \"bloom\"\nvocab_size = 1024\n",
      "hidden_size = 128\nnum_layers = 2\nnum_heads = 2\nseq_length = 200\ndropout = 0.1\n",
      "[data]\nplugin = \"squad\"\ntrain = \"", (source_dir() / "configs/data/mini_squad_train.json").string(),
      "\"\ntrain_samples = 70\nmax_length = 200\n[train]\nmax_steps = 10\nmicro_batch = 1\npad_to_multiple = 200\n",
      "precision = \"bf16\"\n[optimizer]\nlr = 1e-2\nclip = 1.0\n", strategies);
}

struct Learnt {
  Metrics metrics;
  std::map<std::string, at::Tensor> weights;
  std::size_t graphs;  ///< recorded by rank 0
};

Learnt learn(const Workspace& work, const std::string& name, const std::string& strategies,
             const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"run", work.write(name + ".toml", config(strategies)),
                                     cat("run.dir=", (work.folder() / "runs").string()), "run.name=" + name};
  arguments.insert(arguments.end(), more.begin(), more.end());
  arguments.insert(arguments.end(), {"-n", "2"});
  const auto ran = work.run(arguments);
  INFO(ran.all());
  REQUIRE(ran.code == 0);
  CHECK(count(ran.all(), "do not run as CUDA graphs") == 0);
  const auto folder = work.folder() / "runs" / name;
  const auto log = capstan::read_file(folder / "logs" / "rank-0.log");
  return {read_metrics(folder), read_weights(folder), count(log, "run as a CUDA graph")};
}

void check_same(const Learnt& got, const Learnt& expected) {
  CHECK(got.metrics.all("loss") == expected.metrics.all("loss"));
  CHECK(got.metrics.all("grad_norm") == expected.metrics.all("grad_norm"));
  CHECK(bit_equal(got.weights, expected.weights));
}

}  // namespace

TEST_CASE("2 GPUs with deterministic sums: graphs learn the bits of eager micro-steps", "[.gpu][graphs]") {
  if (too_few_gpus(2)) return;
  const Workspace work;
  const std::string accumulation = GENERATE("1", "3");
  const std::string stage = accumulation == "1" ? "" : "[strategy.zero]\nstage = 1\n";
  const std::vector<std::string> common{"run.deterministic=true", "train.accumulation=" + accumulation};
  const auto with = [&](const std::string& graphs) {
    auto all = common;
    all.push_back("train.cuda_graphs=" + graphs);
    return all;
  };
  INFO("accumulation " << accumulation << " " << stage);
  const auto expected = learn(work, "off", stage, with("off"));
  CHECK(expected.graphs == 0);
  const auto got = learn(work, "auto", stage, with("auto"));
  check_same(got, expected);
  CHECK(got.graphs == (accumulation == "1" ? 1 : 2));  // stage 1 gathers parameters in the first of three
}

TEST_CASE("2 GPUs: rows of a tied table learn what its whole gradient does, eagerly and in graphs", "[.gpu][graphs]") {
  if (too_few_gpus(2)) return;
  const Workspace work;
  // bf16: 10 steps' sums in another order.
  constexpr double tolerance = 2e-2;
  const std::vector<std::string> batch{"train.accumulation=3"};
  auto whole = batch, off = batch;
  whole.emplace_back("run.deterministic=true");
  off.emplace_back("train.cuda_graphs=off");
  const auto expected = learn(work, "whole", "", whole);
  for (const auto& [name, strategy, options] :
       {std::tuple<std::string, std::string, std::vector<std::string>>{"rows", "", off},
        {"graphs", "", batch},
        {"sharded", "[strategy.fsdp]\n", off}}) {
    INFO(name);
    const auto got = learn(work, name, strategy, options);
    CHECK(distance(got.metrics.all("loss"), expected.metrics.all("loss")) < tolerance);
    CHECK(distance(got.metrics.all("grad_norm"), expected.metrics.all("grad_norm")) < 5 * tolerance);
  }
}

namespace {

struct Generated {
  std::string answers;
  std::string log;  ///< rank 0's
};

// A run whose one step changes nothing, and its answers after it.
Generated generate(const Workspace& work, const std::string& name, const std::string& strategies,
                   const std::vector<std::string>& more) {
  const auto file = [](const char* split) { return (source_dir() / "configs/data" / split).string(); };
  const auto data = cat("[data]\nplugin = \"squad\"\ntrain = \"", file("mini_squad_train.json"), "\"\neval = \"",
                        file("mini_squad_eval.json"), "\"\nmax_length = 300\n");
  const auto* train =
      "[train]\nmax_steps = 1\nmicro_batch = 2\neval_batch = 6\ngenerate_samples = 24\nmax_new_tokens = 20\n"
      "precision = \"bf16\"\n[optimizer]\nlr = 0\n";
  const auto* model =
      "[run]\nname = \"x\"\nseed = 3\ndevice = \"cuda\"\n[model]\nplugin = \"llama\"\nvocab_size = 512\n"
      "hidden_size = 256\nnum_layers = 3\nnum_heads = 4\nnum_kv_heads = 2\nff_dim = 512\nseq_length = 320\n";
  std::vector<std::string> arguments{"run", work.write(name + ".toml", cat(model, data, train, strategies)),
                                     cat("run.dir=", (work.folder() / "runs").string()), "run.name=" + name};
  arguments.insert(arguments.end(), more.begin(), more.end());
  arguments.insert(arguments.end(), {"-n", "2"});
  const auto ran = work.run(arguments);
  INFO(ran.all());
  REQUIRE(ran.code == 0);
  const auto folder = work.folder() / "runs" / name;
  return {capstan::read_file(folder / "predictions-eval.json"), capstan::read_file(folder / "logs" / "rank-0.log")};
}

}  // namespace

TEST_CASE("2 GPUs that split layers or share experts generate by a graph the tokens of eager steps",
          "[.gpu][graphs][decode]") {
  if (too_few_gpus(2)) return;
  const Workspace work;
  const auto [kind, strategies, temperature] = GENERATE(table<std::string, std::string, std::string>({
      {"ep", "[strategy.expert_parallel]\nsize = 2\n", "0"},
      {"ep-drawn", "[strategy.expert_parallel]\nsize = 2\n", "1.5"},
      {"ep-8-bits", "[strategy.expert_parallel]\nsize = 2\n[strategy.fp8]\n", "0"},
      {"ep-full_shard", "[strategy.expert_parallel]\nsize = 2\n[strategy.fsdp]\n", "0"},
      {"tp", "[strategy.tensor_parallel]\nsize = 2\n", "0"},
      {"drawn", "[strategy.tensor_parallel]\nsize = 2\n", "1.5"},
      {"sp", "[strategy.tensor_parallel]\nsize = 2\nsequence_parallel = true\n", "0"},
      {"cp", "[strategy.context_parallel]\nsize = 2\n", "0"},
  }));
  INFO(kind);
  std::vector<std::string> more{"train.temperature=" + temperature};
  // One rank of those that share experts has a prompt less than rows.
  if (kind.starts_with("ep"))
    more.insert(more.end(), {"model.plugin=mixtral", "model.num_experts=4", "train.generate_samples=11"});
  const auto got = generate(work, kind, strategies, more);
  more.emplace_back("train.cuda_graphs=off");
  const auto expected = generate(work, kind + "-off", strategies, more);
  CHECK(got.answers == expected.answers);
  CHECK(count(got.log, "tokens of 6 rows are generated by a CUDA graph") == 1);
  CHECK(count(expected.log, "generated by a CUDA graph") == 0);
}

}  // namespace gpu_graphs_test
