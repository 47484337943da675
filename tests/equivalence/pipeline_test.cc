// Pipelines learn what one rank learns: schedules x positions x micro-batches, with all that composes with them.
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <map>

#include "support/compositions.h"
#include "support/folder.h"
#include "support/pairwise.h"

namespace pipeline_test {

using namespace capstan;
using namespace capstan::testing;
using capstan::testing::train;  // capstan::train is a namespace, too

namespace {

constexpr std::int64_t steps = 3;

// Eight units: four ranks with two stages each.
std::string model_of(const Family& family) {
  auto config = family_config(family);
  const std::string two = "num_layers = 2";
  return config.replace(config.find(two), two.size(), "num_layers = 6");
}

const Family tied_mixtral{"mixtral",
                          "hidden_size = 16\nnum_heads = 4\nnum_kv_heads = 2\nff_dim = 10\nnum_experts = 4\n"
                          "attention_dropout = 0.1\nrouter_aux_loss = true\nrouter_aux_loss_coef = 0.5\n"
                          "tie_word_embeddings = true\n"};

TrainResult run(const std::string& config, int world, int accumulation) {
  return train({.world = world,
                .config = config,
                .overrides = {"train.accumulation=" + std::to_string(accumulation)},
                .steps = steps});
}

const TrainResult& alone(const std::string& config, int accumulation) {
  static std::map<std::pair<std::string, int>, TrainResult> runs;
  const auto found = runs.find({config, accumulation});
  if (found != runs.end()) return found->second;
  return runs[{config, accumulation}] = run(config, 1, accumulation);
}

void check(const std::string& model, const std::string& strategies, int world, int accumulation) {
  INFO(strategies << "on " << world << " ranks, accumulation " << accumulation << "\n" << model);
  CHECK(differences(run(model + strategies, world, accumulation), alone(model, accumulation), 1e-10) == "");
}

std::string pipeline(int size, const std::string& schedule) {
  return "[strategy.pipeline_parallel]\nsize = " + std::to_string(size) + "\nschedule = " + schedule;
}

const std::vector<std::string> schedules{"\"1f1b\"\n", "\"interleaved\"\n", "\"zero_bubble\"\n", "\"dualpipev\"\n",
                                         "\"zero_bubble\"\nchunks = 2\n"};
const std::vector<int> accumulations{1, 2, 3, 4, 8};
const std::string full_shard = "[strategy.fsdp]\n", zero = "[strategy.zero]\nstage = ";
const std::vector<std::string> data_modes{full_shard,
                                          "",
                                          zero + "1\n",
                                          zero + "2\n",
                                          zero + "2\noffload_optimizer = \"cpu\"\n",
                                          full_shard + "[train]\nregather = \"micro_step\"\n"};
const std::string tp = "[strategy.tensor_parallel]\nsize = 2\n";
const std::vector<std::string> others{"", tp, tp + "sequence_parallel = true\n",
                                      "[strategy.expert_parallel]\nsize = 2\n"};
const std::string packing = "[data]\npacking = true\n", recompute = "[strategy.recompute]\n";

enum Factor : std::size_t { size_, schedule_, accumulation_, data_, other_, adapters_, recompute_, packing_ };
const std::vector<std::size_t> levels{2, schedules.size(), accumulations.size(), data_modes.size(), others.size(), 2, 2,
                                      2};

int world_of(const Choice& c) { return (2 << c[size_]) * (c[other_] > 0 ? 2 : 1) * (c[data_] == 1 ? 1 : 2); }

// Ranks are threads of one program. Of 24 samples each data rank has as many in every micro-batch.
bool allowed(const Choice& c) {
  const int splits_samples = (c[data_] == 1 ? 1 : 2) * (c[other_] == 3 ? 2 : 1);
  return world_of(c) <= 8 && 24 % (accumulations[c[accumulation_]] * splits_samples) == 0;
}

}  // namespace

TEST_CASE("float64: a pairwise cover of schedules, micro-batches and strategies, of a mixture with a tied head",
          "[pipeline][matrix][train]") {
  for (const auto& c : pairwise(levels, allowed)) {
    auto model = model_of(tied_mixtral);
    if (c[packing_] == 1) model += packing;
    if (c[adapters_] == 1) model += adapters_of(tied_mixtral);
    auto strategies = pipeline(2 << c[size_], schedules[c[schedule_]]) + data_modes[c[data_]] + others[c[other_]];
    if (c[recompute_] == 1) strategies += recompute;
    check(model, strategies, world_of(c), accumulations[c[accumulation_]]);
  }
}

TEST_CASE("gradients of weights come later in models of each kind, with sums each micro-batch and once",
          "[pipeline][train]") {
  for (const std::size_t family : {0, 1, 2}) {
    const auto model = model_of(families()[family]);
    check(model, pipeline(2, schedules[2]) + full_shard, 4, 4);
    check(model, pipeline(2, schedules[3]) + full_shard + "[train]\nreduce = \"step\"\n", 4, 4);
  }
}

TEST_CASE("a run that was saved by a pipeline resumes without one, and the other way round", "[pipeline][train]") {
  const auto setting = [](const std::string& strategies, int world) {
    return Setting{.world = world,
                   .config = model_of(tied_mixtral) + strategies,
                   .overrides = {"train.accumulation=4"},
                   .steps = steps};
  };
  const auto staged = setting(pipeline(2, schedules[4]) + full_shard, 4), flat = setting(full_shard, 2);
  const auto& expected = alone(model_of(tied_mixtral), 4);
  CHECK(differences(train_resumed(staged, 1, flat), expected, 1e-10) == "");
  CHECK(differences(train_resumed(flat, 1, staged), expected, 1e-10) == "");
}

TEST_CASE("a table from a file: two positions that receive in another order than they need", "[pipeline][train]") {
  // Position 0 sends micro-batch 1 to stage 3 before micro-batch 0, which position 1 computes first. Some backwards are
  // in two parts, and gradients of weights come in another order than those of inputs.
  const test::Folder folder;
  const auto file = folder.write("mine.csv",
                                 "0F0,0F1,2F1,2F0,2B1,2I0,0I1,0I0,0W1,2W0,0W0\n"
                                 "1F0,1F1,3F0,3F1,3I1,3I0,1B1,1I0,3W0,1W0,3W1\n");
  check(model_of(tied_mixtral), "[strategy.pipeline_parallel]\nsize = 2\ntable = \"" + file + "\"\n" + full_shard, 4,
        2);
}

TEST_CASE("stages that train nothing: a pipeline of adapters in the last block", "[pipeline][train]") {
  const auto model = model_of(families()[2]) + "[strategy.lora]\nrank = 2\nalpha = 4\ntargets = [\"down_proj\"]\n";
  for (const auto& schedule : schedules) check(model, pipeline(4, schedule), 4, 3);
}

// q, k and v, and gate and up, have an adapter each, which multiply their input together.
TEST_CASE("adapters of all products, whose gradients come in two parts, with split products too", "[pipeline][train]") {
  const auto model =
      model_of(families()[2]) + "[strategy.lora]\nrank = 3\nalpha = 5\ninit = \"random\"\ntargets = [\"all-linear\"]\n";
  for (const std::size_t each : {2, 4}) check(model, pipeline(2, schedules[each]), 2, 3);
  check(model, pipeline(2, schedules[2]) + "[strategy.tensor_parallel]\nsize = 2\n" + full_shard, 8, 2);
  check(model, pipeline(2, schedules[2]) + "[strategy.recompute]\n", 2, 2);
}

}  // namespace pipeline_test
