// Few labels, as in answers to questions: logits are computed only of some positions (nn::Batch::loss_rows), with the
// losses, norms and gradients of all positions, on every layout.
#include <capstan_catch.h>
#include <capstan_places.h>

#include "checkpoint/scratch.h"
#include "data/loss_rows.h"
#include "support/compositions.h"
#include "support/small_run.h"

namespace sparse_labels_test {

using namespace capstan;
using capstan::testing::Family;
using capstan::testing::SmallRun;

namespace {

// float64 sums in another order: what the project promises.
constexpr double promised = 1e-10;

// 16 rows of 128 positions a step. The second of two steps has one sample, so that most ranks have none.
std::string config_of(const Scratch& scratch, const Family& family, const std::string& strategies) {
  return scratch.write("a.toml", "[run]\nseed = 3\ndevice = \"cpu\"\n" + testing::family_config(family, 130) +
                                     "[data]\nplugin = \"squad\"\ntrain = \"" CAPSTAN_SOURCE_DIR
                                     "/configs/data/mini_squad_train.json\"\ntrain_samples = 17\nmax_length = 97\n"
                                     "[train]\nmax_steps = 2\nglobal_batch = 16\npad_to_multiple = 128\n"
                                     "precision = \"fp64\"\n[optimizer]\nlr = 1e-2\nwarmup_steps = 1\nclip = 1.0\n" +
                                     strategies);
}

struct Layout {
  int world = 1;
  std::string strategies = {};
  std::int64_t accumulation = 1;
  std::vector<std::string> overrides = {};
};

/// What was learnt, and in how many micro-batches of ranks there was nothing to learn.
struct Learnt : SmallRun {
  int idle = 0;
};

Learnt run(const Family& family, const Layout& layout, bool picks) {
  at::set_num_threads(1);
  const Scratch scratch;
  const auto file = config_of(scratch, family, layout.strategies);
  auto overrides = layout.overrides;
  overrides.push_back("train.accumulation=" + std::to_string(layout.accumulation));
  // An auxiliary loss is over a micro-step, and the reference has more of them.
  if (family.plugin == "mixtral") overrides.emplace_back("model.router_aux_loss=false");
  Learnt result;
  std::mutex mutex;
  testing::Collected collected(result);
  comm::run_in_process(layout.world, [&](comm::Communicator& communicator) {
    const auto job = testing::prepare_small(file, overrides, layout.world, communicator.world().rank);
    for (const auto& micro : step::Feed(job).draw(1).micro) {
      const std::lock_guard lock(mutex);
      CHECK((data::loss_rows(micro) < micro.padded_tokens()) == picks);
      if (micro.target_tokens == 0) ++result.idle;
    }
    testing::run_rank(job, communicator, 2, collected);
  });
  return result;
}

/// Two rows at a time, 256 positions: logits are computed of all of them.
const Layout by_two{.accumulation = 8};

}  // namespace

TEST_CASE("float64: logits of only the positions with labels teach what those of all teach, on every layout",
          "[matrix][train]") {
  for (const auto& family : {testing::dense(), testing::mixture()}) {
    int idle = 0;
    const auto reference = run(family, by_two, false);
    for (const auto& composition : testing::compositions()) {
      if (composition.needs_experts && family.plugin != "mixtral") continue;
      INFO(family.plugin << ", " << composition.name);
      const auto learnt = run(family, {composition.world, composition.strategies}, true);
      CHECK(testing::differences(learnt, reference, promised) == "");
      idle += learnt.idle;
    }
    CHECK(idle > 0);
  }
}

TEST_CASE("float64: the same with adapters, and with a head of its own that is trained", "[matrix][train]") {
  const std::string tp = "[strategy.tensor_parallel]\nsize = 2\nsequence_parallel = true\n[strategy.fsdp]\n";
  for (const std::size_t index : {2, 4}) {
    const auto& family = testing::families()[index];
    const auto adapters = index == 2 ? testing::adapters_of(family) : std::string();
    INFO(family.plugin);
    auto reference = by_two;
    reference.strategies = adapters;
    CHECK(testing::differences(run(family, {4, adapters + tp}, true), run(family, reference, false), promised) == "");
  }
}

TEST_CASE("float32, deterministic: sharded or not, the bits are the same", "[matrix][train]") {
  const auto learnt = [](const std::string& strategies) {
    return run(testing::dense(), {2, strategies, 1, {"train.precision=fp32", "run.deterministic=true"}}, true);
  };
  const auto sharded = learnt("[strategy.fsdp]\n"), replicated = learnt("");
  CHECK(sharded.losses == replicated.losses);
  CHECK(sharded.norms == replicated.norms);
  for (const auto& [name, weight] : replicated.weights) CHECK(at::equal(sharded.weights.at(name), weight));
}

}  // namespace sparse_labels_test
