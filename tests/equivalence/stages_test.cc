// A model that is cut into stages over ranks learns what one rank learns, for programs with several micro-batches in
// flight: before any pipeline is a plugin.
#include <capstan/monitor.h>
#include <capstan/strategy.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "support/families.h"

using namespace capstan;
using strategy::Action;

namespace {

struct StageOptions {
  std::string form;
  static void describe(config::OptionTable<StageOptions>& t) {
    t.add("form", &StageOptions::form).doc("how the model is cut, and in which order its stages run");
  }
};

strategy::Program one_forward_one_backward(int ranks, int position, int micros) {
  strategy::Program program;
  const int ahead = std::min(micros, ranks - 1 - position);
  for (int m = 0; m < micros + ahead; ++m) {
    if (m < micros) program.push_back({Action::Kind::forward, position, m});
    if (m >= ahead) program.push_back({Action::Kind::backward, position, m - ahead});
  }
  return program;
}

// All forwards of a position's stages, then all backwards.
strategy::Program all_forwards_first(const std::vector<int>& positions, int position, int micros) {
  strategy::Program program;
  const int stages = static_cast<int>(positions.size());
  const auto add = [&](Action::Kind kind, int stage) {
    if (positions[static_cast<std::size_t>(stage)] != position) return;
    for (int m = 0; m < micros; ++m) program.push_back({kind, stage, m});
  };
  for (int stage = 0; stage < stages; ++stage) add(Action::Kind::forward, stage);
  for (int stage = stages; stage-- > 0;) add(Action::Kind::backward, stage);
  return program;
}

class InStages : public strategy::Strategy {
 public:
  explicit InStages(const config::Options<StageOptions>& options) : form_(options->form) {}
  void mesh(layout::MeshSpec& spec) override {
    spec.set(layout::Axis::pp, form_ == "three" ? 3 : 2, "strategy.in_stages", "the test");
  }
  void claim(strategy::Claims& claims) const override {
    claims.exclusive(strategy::step_program_point);
    claims.exclusive("axis pp");
  }
  strategy::Stages stages(const std::vector<std::unique_ptr<nn::Unit>>& units, const layout::Mesh& mesh) override {
    const int ranks = mesh.size(layout::Axis::pp);
    strategy::Stages stages;
    if (form_ == "two" || form_ == "three") {
      stages.first_units =
          ranks == 2 ? std::vector<std::size_t>{0, units.size() / 2} : std::vector<std::size_t>{0, 1, 3};
      stages.positions = ranks == 2 ? std::vector<int>{0, 1} : std::vector<int>{0, 1, 2};
      stages.program = [ranks](int position, int micros) { return one_forward_one_backward(ranks, position, micros); };
      return stages;
    }
    stages.first_units = {0, 1, 2, 3};
    stages.positions = form_ == "looped" ? std::vector<int>{0, 1, 0, 1} : std::vector<int>{0, 1, 1, 0};
    stages.program = [positions = stages.positions](int position, int micros) {
      return all_forwards_first(positions, position, micros);
    };
    return stages;
  }

 private:
  std::string form_;
};

struct NoOptions {
  static void describe(config::OptionTable<NoOptions>&) {}
};

// Notes the loss of each evaluation, which all ranks' monitors are told.
std::mutex evaluated_mutex;
std::map<std::int64_t, std::vector<double>> evaluated;  // by step
class Seen : public monitor::Monitor {
 public:
  explicit Seen(const config::Options<NoOptions>&) {}
  void eval_ended(const monitor::EvalEnded& event) override {
    const std::scoped_lock lock(evaluated_mutex);
    evaluated[event.step].push_back(event.loss.value());
  }
};

const std::string tied_mixtral =
    "hidden_size = 16\nnum_heads = 4\nnum_kv_heads = 1\nff_dim = 10\nnum_experts = 4\nattention_dropout = 0.1\n"
    "router_aux_loss = true\nrouter_aux_loss_coef = 0.5\ntie_word_embeddings = true\n";

testing::Setting setting(const std::string& model, const std::string& strategies, int world,
                         const std::string& form = "") {
  auto config = "[model]\nplugin = \"" + model.substr(0, model.find(' ')) + "\"\n" + model.substr(model.find(' ') + 1) +
                strategies;
  if (!form.empty()) config += "[strategy.in_stages]\nform = \"" + form + "\"\n";
  return {.world = world,
          .config = config,
          .overrides = {"train.accumulation=4"},
          .steps = 4,
          .types = {testing::type<strategy::Strategy, InStages, StageOptions>("strategy", "in_stages")}};
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
  const auto staged = setting(mixtral, full_shard, 4, "two");
  const auto flat = setting(mixtral, full_shard, 2);
  const auto alone = testing::train(setting(mixtral, "", 1));
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
    run.overrides.emplace_back("train.eval_every=2");
    run.types.push_back(testing::type<monitor::Monitor, Seen, NoOptions>("monitor", "seen"));
    testing::train(run);
    return evaluated;
  };
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
}
