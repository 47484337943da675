// A model that is cut into stages over ranks learns what one rank learns, for programs with several micro-batches in
// flight: before any pipeline is a plugin.
#include <capstan/monitor.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "support/in_stages.h"

namespace stages_test {

using namespace capstan;
using testing::in_stages;

namespace {

struct NoOptions {
  static void describe(config::OptionTable<NoOptions>&) {}
};

// Notes the loss of each evaluation, which all ranks' monitors are told, and the model's size.
std::mutex evaluated_mutex;
std::map<std::int64_t, std::vector<double>> evaluated;  // by step
std::set<std::pair<std::int64_t, std::int64_t>> sizes;  // parameters, and those that are trained
class Seen : public monitor::Monitor {
 public:
  explicit Seen(const config::Options<NoOptions>&) {}
  void run_started(const monitor::RunStarted& event) override {
    const std::scoped_lock lock(evaluated_mutex);
    sizes.emplace(event.parameters, event.trainable_parameters);
  }
  void eval_ended(const monitor::EvalEnded& event) override {
    const std::scoped_lock lock(evaluated_mutex);
    evaluated[event.step].push_back(event.loss.value());
  }
};

const std::string tied_mixtral =
    "hidden_size = 16\nnum_heads = 4\nnum_kv_heads = 1\nff_dim = 10\nnum_experts = 4\nattention_dropout = 0.1\n"
    "router_aux_loss = true\nrouter_aux_loss_coef = 0.5\ntie_word_embeddings = true\n";

// The first step has no state and no recorded order of units, the second makes both, and the third uses them.
constexpr std::int64_t steps = 3;

testing::Setting setting(const std::string& model, const std::string& strategies, int world,
                         const std::string& form = "") {
  auto config = "[model]\nplugin = \"" + model.substr(0, model.find(' ')) + "\"\n" + model.substr(model.find(' ') + 1) +
                strategies;
  if (!form.empty()) config += testing::stages_table(form);
  return {
      .world = world, .config = config, .overrides = {"train.accumulation=4"}, .steps = steps, .types = {in_stages()}};
}

const std::string mixtral = "mixtral " + tied_mixtral;
const std::string llama =
    "llama hidden_size = 16\nnum_heads = 4\nnum_kv_heads = 2\nff_dim = 22\nattention_dropout = 0.1\n"
    "tie_word_embeddings = true\n";
const std::string full_shard = "[strategy.fsdp]\nmode = \"full_shard\"\n";

}  // namespace

TEST_CASE("two stages, one forward one backward: a tied head, experts' losses and full_shard learn as one rank does",
          "[train]") {
  const auto alone = testing::train(setting(mixtral, "", 1));
  CHECK(testing::differences(testing::train(setting(mixtral, "", 2, "two")), alone, 1e-10) == "");
  CHECK(testing::differences(testing::train(setting(mixtral, full_shard, 4, "two")), alone, 1e-10) == "");
}

TEST_CASE("three stages: the first and the last share the embedding", "[train]") {
  const auto alone = testing::train(setting(mixtral, "", 1));
  CHECK(testing::differences(testing::train(setting(mixtral, "", 3, "three")), alone, 1e-10) == "");
  CHECK(testing::differences(testing::train(setting(mixtral, full_shard, 6, "three")), alone, 1e-10) == "");
}

TEST_CASE("several stages a rank, in turn and in a V, whose ends share a weight on one rank", "[train]") {
  const auto alone = testing::train(setting(mixtral, "", 1));
  for (const std::string form : {"looped", "v"}) {
    INFO(form);
    CHECK(testing::differences(testing::train(setting(mixtral, "", 2, form)), alone, 1e-10) == "");
    CHECK(testing::differences(testing::train(setting(mixtral, full_shard, 4, form)), alone, 1e-10) == "");
  }
}

TEST_CASE("stages under other data strategies, with tensor parallelism and adapters", "[train]") {
  const std::string zero = "[strategy.zero]\nstage = ";
  const std::string tensors = "[strategy.tensor_parallel]\nsize = 2\n";
  const std::string lora = "[strategy.lora]\nrank = 2\nalpha = 4\ntargets = [\"all-linear\"]\n";
  const auto alone = testing::train(setting(llama, "", 1));
  for (const auto& more : {zero + "1\n", zero + "2\n", zero + "3\n", zero + "2\noffload_optimizer = \"cpu\"\n"}) {
    INFO(more);
    CHECK(testing::differences(testing::train(setting(llama, more, 4, "two")), alone, 1e-10) == "");
  }
  CHECK(testing::differences(testing::train(setting(llama, tensors + full_shard, 8, "two")), alone, 1e-10) == "");
  const auto adapted = testing::train(setting(llama, lora, 1));
  CHECK(testing::differences(testing::train(setting(llama, lora + full_shard, 4, "two")), adapted, 1e-10) == "");
}

TEST_CASE("a run that was saved in stages resumes without, and the other way round", "[train]") {
  const auto of_four_steps = [](const std::string& strategies, int world, const std::string& form) {
    auto run = setting(mixtral, strategies, world, form);
    run.steps = 4;
    return run;
  };
  const auto staged = of_four_steps(full_shard, 4, "two"), flat = of_four_steps(full_shard, 2, "");
  const auto alone = testing::train(of_four_steps("", 1, ""));
  CHECK(testing::differences(testing::train_resumed(staged, 2, flat), alone, 1e-10) == "");
  CHECK(testing::differences(testing::train_resumed(flat, 2, staged), alone, 1e-10) == "");
}

TEST_CASE("stages with packed rows, with recomputed units, and with muon", "[train]") {
  const std::string packing = "[data]\npacking = true\n";
  const std::string recompute = "[strategy.recompute]\n";
  for (const auto& more : {packing, recompute, std::string("[optimizer]\nplugin = \"muon\"\n")}) {
    INFO(more);
    const auto alone = testing::train(setting(mixtral, more, 1));
    CHECK(testing::differences(testing::train(setting(mixtral, more + full_shard, 4, "two")), alone, 1e-10) == "");
    CHECK(testing::differences(testing::train(setting(mixtral, more + full_shard, 6, "three")), alone, 1e-10) == "");
  }
}

TEST_CASE("evaluation over stages: every rank's samples count once, and the loss is that of one rank", "[train]") {
  const auto losses = [](const std::string& strategies, int world, const std::string& form) {
    evaluated.clear();
    auto run = setting(llama,
                       strategies +
                           "[data]\nplugin = \"synthetic\"\nsamples = 96\neval_samples = 21\nmax_length = 20\n"
                           "[monitor.seen]\n",
                       world, form);
    run.steps = 4;
    run.overrides.emplace_back("train.eval_every=2");
    run.types.push_back(testing::type<monitor::Monitor, Seen, NoOptions>("monitor", "seen"));
    testing::train(run);
    return evaluated;
  };
  sizes.clear();
  const auto alone = losses("", 1, "");
  REQUIRE(alone.size() >= 2);
  for (const auto& [world, form] : {std::pair<int, std::string>{4, "two"}, {6, "three"}, {4, "looped"}}) {
    INFO(form);
    const auto staged = losses(full_shard, world, form);
    REQUIRE(staged.size() == alone.size());
    for (const auto& [step, loss] : alone) {
      REQUIRE(staged.at(step).size() == static_cast<std::size_t>(world));
      for (const auto told : staged.at(step)) CHECK(told == Approx(loss.front()).epsilon(1e-10));
    }
  }
  CHECK(sizes.size() == 1);  // a stage's rank says the whole model's
}

}  // namespace stages_test
