// What ranks learn that share the tokens of their samples is what one rank learns.
#include <capstan/monitor.h>
#include <capstan/strategy.h>
#include <capstan_catch.h>

#include <mutex>

#include "plugins/strategies/context_parallel/cases.h"
#include "support/compositions.h"

namespace equality_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

const std::string packed = "[data]\npacking = true\n";
const std::string full_shard = "[strategy.fsdp]\nmode = \"full_shard\"\n";

// `same`: what a rank alone is compared with; `split`: what it has besides.
void check(const std::string& same, const std::string& split, int world) {
  INFO(same << split << world << " ranks");
  const auto& one = alone(same);
  CHECK(one.norms.front() > 0);
  CHECK(differences(train(context_setting(same + split, world)), one, context_tolerance) == "");
}

std::string window_of(const std::string& sizes) {
  return family_config({"llama", "model_type = \"mistral\"\nsliding_window = 5\nff_dim = 22\n" + sizes});
}

}  // namespace

TEST_CASE("float64: every family, with dropout, on ranks that get heads, and on ranks that get all keys", "[matrix]") {
  // Each family by heads and by all keys, one of them packed.
  bool packs_heads = false;
  for (const auto& family : families()) {
    const auto model = family_config(family);
    if (packs_heads) {
      check(model, context_on(4, "ulysses") + packed, 4);
      check(model, context_on(3), 3);  // divides no heads: all keys
    } else {
      check(model, context_on(2), 2);
      check(model, context_on(2, "gather") + packed, 2);
    }
    packs_heads = !packs_heads;
  }
}

TEST_CASE("float64: every family without dropout, by a mask of each rank's queries", "[matrix]") {
  for (const auto& family : odd_families()) {
    const auto model = family_config(family);
    check(model, context_on(4) + packed, 4);
    check(model, context_on(3) + packed, 3);  // divides the heads
  }
  check(family_config(odd_families().front()), context_on(2), 2);
}

TEST_CASE("float64: a window is one of positions, whichever rank has them", "[matrix]") {
  const auto model = window_of("hidden_size = 16\nnum_heads = 4\nnum_kv_heads = 2\n");
  for (const auto& data : {std::string(), packed}) {
    check(model, context_on(2, "gather") + data, 2);
    check(model, context_on(3) + data, 3);
    check(model, context_on(4, "ulysses") + data, 4);
  }
}

TEST_CASE("float64: together with tensor parallelism, with split positions, and sharded over all ranks", "[matrix]") {
  const std::string tp = "[strategy.tensor_parallel]\nsize = 2\n", sp = tp + "sequence_parallel = true\n";
  const auto sharded = sp + full_shard, packed_and_sharded = packed + full_shard, all = packed + sharded;
  for (const auto& family : {families()[1], families()[2], mixture()}) {
    const auto model = family_config(family);
    check(model, context_on(2) + tp, 4);
    check(model, context_on(2) + all, 8);
    check(model, context_on(2, "gather") + sharded, 4);
    check(model, context_on(3) + packed_and_sharded, 6);
  }
}

TEST_CASE("float64: together with experts on several ranks, recompute, offload and adapters", "[matrix]") {
  const std::string ep = "[strategy.expert_parallel]\nsize = 2\n";
  const std::string again = "[strategy.recompute]\n", regions = again + "regions = [\"attention\", \"mlp\"]\n";
  const std::string zero = "[strategy.zero]\nstage = ", offload = zero + "2\noffload_optimizer = \"cpu\"\n";
  const auto mixed = family_config(mixture()), with_adapters = mixed + adapters_of(mixture());
  check(mixed, context_on(2) + ep + again, 4);
  check(mixed, context_on(2, "gather") + ep + regions + packed + full_shard, 4);
  check(with_adapters, context_on(2) + ep + packed + zero + "1\n", 4);
  check(with_adapters, context_on(3), 3);
  const auto plain = family_config(dense()), adapted = plain + adapters_of(dense());
  check(plain, context_on(2) + offload + again, 4);
  check(adapted, context_on(4) + packed + zero + "3\n" + regions, 8);
  check(adapted, context_on(2, "gather") + full_shard, 4);
  check(family_config(families()[0]) + adapters_of(families()[0]), context_on(2) + packed, 2);
}

namespace {

struct HalvesOptions {
  static void describe(config::OptionTable<HalvesOptions>&) {}
};

// The model in two stages, each of which runs all forwards and then all backwards.
class Halves : public strategy::Strategy {
 public:
  explicit Halves(const config::Options<HalvesOptions>&) {}
  void mesh(layout::MeshSpec& spec) override { spec.set(layout::Axis::pp, 2, "strategy.halves", "the test"); }
  void claim(strategy::Claims& claims) const override { claims.exclusive(strategy::step_program_point); }
  strategy::Stages stages(const std::vector<std::unique_ptr<nn::Unit>>& units, const layout::Mesh&) override {
    using Kind = strategy::Action::Kind;
    const auto program = [](int position, int micros) {
      strategy::Program all;
      for (const auto kind : {Kind::forward, Kind::backward}) {
        for (int m = 0; m < micros; ++m) all.push_back({kind, position, m});
      }
      return all;
    };
    return {{0, units.size() / 2}, {0, 1}, program};
  }
};

}  // namespace

TEST_CASE("float64: together with stages, and with stages and tensor parallelism", "[matrix]") {
  const auto model = family_config(dense());
  const auto check_stages = [&](const std::string& split, int world) {
    INFO(split << world << " ranks");
    auto run = context_setting(model + split + "[strategy.halves]\n", world);
    run.types.push_back(type<strategy::Strategy, Halves, HalvesOptions>("strategy", "halves"));
    CHECK(differences(train(run), alone(model), context_tolerance) == "");
  };
  check_stages(context_on(2) + packed + full_shard, 8);
  check_stages(context_on(2, "gather") + "[strategy.tensor_parallel]\nsize = 2\n", 8);
}

TEST_CASE("a run that was saved where ranks share tokens resumes where they do not, and the other way round",
          "[matrix]") {
  const auto model = family_config(dense());
  const auto shared = context_setting(model + context_on(2) + full_shard, 4);
  const auto flat = context_setting(model + full_shard, 2);
  CHECK(differences(train_resumed(shared, 2, flat), alone(model), context_tolerance) == "");
  CHECK(differences(train_resumed(flat, 2, shared), alone(model), context_tolerance) == "");
}

namespace {

struct NoOptions {
  static void describe(config::OptionTable<NoOptions>&) {}
};

// Notes what every rank's monitors are told.
std::mutex told_mutex;
std::map<std::string, std::vector<double>> told;
class Seen : public monitor::Monitor {
 public:
  explicit Seen(const config::Options<NoOptions>&) {}
  monitor::Values step_ended(const monitor::StepEnded& event) override {
    add("samples", event.step, static_cast<double>(event.samples));
    add("target tokens", event.step, static_cast<double>(event.target_tokens));
    add("loss", event.step, event.loss);
    add("auxiliary loss", event.step, event.auxiliary_loss.value_or(0));
    for (const auto& [name, value] : event.values) add(name, event.step, value);
    return {};
  }
  void eval_ended(const monitor::EvalEnded& event) override {
    add("evaluated samples", event.step, static_cast<double>(event.samples));
    add("evaluated loss", event.step, event.loss.value());
    for (const auto& [name, value] : event.scores) add("evaluated " + name, event.step, value);
  }

 private:
  static void add(const std::string& name, std::int64_t step, double value) {
    const std::scoped_lock lock(told_mutex);
    told[name + ", step " + std::to_string(step)].push_back(value);
  }
};

std::map<std::string, std::vector<double>> told_of(const std::string& config, int world) {
  told.clear();
  auto run = context_setting(config + "[monitor.seen]\n", world);
  run.types.push_back(type<monitor::Monitor, Seen, NoOptions>("monitor", "seen"));
  train(run);
  return told;
}

}  // namespace

TEST_CASE("samples, target tokens, experts' tokens and figures count once, in training and in evaluation", "[matrix]") {
  const auto mixed = family_config(mixture()) +
                     "[data]\nplugin = \"synthetic\"\nsamples = 96\neval_samples = 21\nmax_length = 20\n"
                     "[train]\neval_every = 2\n";
  const auto pairs = family_config(dense()) + "[data]\nsequences = 2\n[objective]\nplugin = \"dpo\"\nloss = \"orpo\"\n";
  for (const auto& config : {mixed, pairs}) {
    const auto one = told_of(config, 1);
    REQUIRE(one.contains(config == mixed ? "evaluated loss, step 2" : "reward_margin, step 1"));
    const std::vector<std::pair<std::string, int>> layouts{
        {context_on(2), 2}, {context_on(3), 3}, {context_on(2) + full_shard, 4}};
    for (const auto& [strategies, world] : layouts) {
      INFO(config << strategies << world << " ranks");
      const auto all = told_of(config + strategies, world);
      for (const auto& [what, values] : one) {
        INFO(what);
        REQUIRE(all.contains(what));
        for (const auto value : all.at(what)) CHECK(value == Approx(values.front()).epsilon(context_tolerance));
      }
    }
  }
}

TEST_CASE("an evaluation in which a data rank has only empty places has one rank's numbers", "[matrix]") {
  const auto config = family_config(dense()) +
                      "[data]\nplugin = \"synthetic\"\nsamples = 96\neval_samples = 1\nmax_length = 20\n"
                      "[train]\neval_every = 2\npad_to_multiple = 1\n";
  const auto one = told_of(config, 1);
  for (const auto* method : {"ulysses", "gather"}) {
    const auto all = told_of(config + context_on(2, method), 4);
    for (const std::string what : {"evaluated loss, step 2", "evaluated samples, step 2"}) {
      INFO(method << ": " << what);
      REQUIRE(one.contains(what));
      REQUIRE(all.contains(what));
      for (const auto value : all.at(what)) CHECK(value == Approx(one.at(what).front()).epsilon(context_tolerance));
    }
  }
}

}  // namespace equality_test
