// The shard engine on in-process ranks: what lies where, when, and that gradients are those of a single rank.
#include <capstan_catch.h>

#include "shard/probe.h"
#include "shard/rig.h"

namespace engine_test {

using namespace capstan;
using namespace capstan::testing;
using comm::Communicator;
using comm::run_in_process;

namespace {

// Sums over ranks and micro-steps in another order than the reference's: some 10 additions of 1e-16 each.
constexpr double tolerance = 1e-13;

/// Gradients after `micro` micro-steps of every rank, and their squared norms summed over ranks.
struct Result {
  Whole gradients;
  at::Tensor norms;
};

std::vector<nn::Batch> batches_of(int world, std::int64_t micro, std::int64_t step) {
  std::vector<nn::Batch> batches;
  for (std::int64_t m = 0; m < micro; ++m) {
    for (int r = 0; r < world; ++r) batches.push_back(tiny_batch(100 * step + m * world + r));
  }
  return batches;
}

void run_step(Rig& rig, Communicator& communicator, std::int64_t micro, std::int64_t step) {
  const auto world = communicator.world().size;
  const auto batches = batches_of(world, micro, step);
  for (std::int64_t m = 0; m < micro; ++m) {
    rig.micro_step(m, batches[static_cast<std::size_t>(m * world + communicator.world().rank)]);
  }
}

Result train(int world, const RigOptions& options, const std::vector<std::int64_t>& steps = {0}) {
  at::set_num_threads(1);
  Result result;
  std::mutex mutex;
  run_in_process(world, [&](Communicator& communicator) {
    Rig rig(communicator, options);
    for (const auto step : steps) run_step(rig, communicator, options.accumulation, step);
    merge(result.gradients, mutex, rig.engine->gradient_boxes());
    auto norms = rig.engine->squared_grad_norms();
    rig.group->all_reduce(norms, comm::ReduceOp::sum, "norms");
    if (communicator.world().rank == 0) result.norms = norms;
  });
  return result;
}

/// A unit whose weight takes part only while `reached`.
class Unused : public TinyUnit {
 public:
  explicit Unused(bool& reached)
      : TinyUnit("unused"), weight_(add(tiny_weight("unused", {3}, true))), reached_(reached) {}

 private:
  nn::Hidden compute(nn::Hidden hidden, const nn::Batch&) override {
    if (reached_) hidden.states = hidden.states * weight_->value().sum();
    return hidden;
  }
  nn::WeightPtr weight_;
  bool& reached_;
};

}  // namespace

TEST_CASE("gradients are the sum of what one rank computes, however it is sharded") {
  const int world = GENERATE(1, 2, 3, 4, 7);
  const bool sharded = GENERATE(true, false);
  INFO("world " << world << " sharded " << sharded);
  const RigOptions options{.sharded = sharded};
  const auto result = train(world, options);
  CHECK(close(result.gradients, plain_gradients(options, batches_of(world, 1, 0)), tolerance));
}

TEST_CASE("accumulation: the first micro-step of a step writes, later ones add") {
  const int world = GENERATE(1, 2, 3);
  const bool sharded = GENERATE(true, false);
  const auto reduce = GENERATE(shard::ReduceWhen::step, shard::ReduceWhen::micro_step);
  INFO("world " << world << " sharded " << sharded << " each micro-step " << (reduce == shard::ReduceWhen::micro_step));
  const RigOptions options{.sharded = sharded, .accumulation = 3, .reduce = reduce};
  const auto second_alone = train(world, options, {1});
  CHECK(close(second_alone.gradients, plain_gradients(options, batches_of(world, 3, 1)), tolerance));
  // Nothing of an earlier step is left: bit-equal.
  const auto after_first = train(world, options, {0, 1});
  CHECK(bit_equal(after_first.gradients, second_alone.gradients));
  CHECK(at::equal(after_first.norms, second_alone.norms));
}

TEST_CASE("sharded and replicated gradients and norms are bit-equal at the same world size") {
  const int world = GENERATE(1, 2, 3, 4, 7);
  const std::int64_t accumulation = GENERATE(1, 3);
  const auto reduce = GENERATE(shard::ReduceWhen::step, shard::ReduceWhen::micro_step);
  const auto type = GENERATE(at::kFloat, at::kDouble);
  INFO("world " << world << " accumulation " << accumulation);
  RigOptions options{.accumulation = accumulation, .reduce = reduce};
  options.precision.compute = options.precision.master = options.precision.reduce = type;
  const auto sharded = train(world, options);
  options.sharded = false;
  const auto whole = train(world, options);
  CHECK(bit_equal(sharded.gradients, whole.gradients));
  CHECK(at::equal(sharded.norms, whole.norms));
}

TEST_CASE("norms count each element once") {
  const int world = GENERATE(1, 2, 4, 7);
  const bool sharded = GENERATE(true, false);
  INFO("world " << world << " sharded " << sharded);
  const auto result = train(world, {.sharded = sharded});
  std::vector<std::string> names;
  run_in_process(1, [&](Communicator& communicator) { names = Rig(communicator, {}).engine->trainable_names(); });
  CHECK(names == std::vector<std::string>{"table", "layer1.q+k", "layer1.down", "layer1.bias", "layer2.q+k",
                                          "layer2.down", "layer2.bias", "head"});
  for (std::size_t i = 0; i < names.size(); ++i) {
    double expected = 0;
    const auto base = names[i].substr(0, names[i].find(".q+k"));
    const bool fused = base != names[i];
    for (const auto& name :
         fused ? std::vector<std::string>{base + ".q", base + ".k"} : std::vector<std::string>{base}) {
      expected += result.gradients.at(name).pow(2).sum().item<double>();
    }
    INFO(names[i]);
    // The same squares added in another order: below 100 of them.
    CHECK(result.norms[static_cast<std::int64_t>(i)].item<double>() == Approx(expected).epsilon(1e-14));
  }
}

TEST_CASE("a tied weight's gradient is complete only at the end of backward") {
  const int world = GENERATE(2, 3);
  const auto expected = train(world, {}).gradients;
  std::mutex mutex;
  std::map<std::string, Whole> seen;  // by event
  run_in_process(world, [&](Communicator& communicator) {
    Rig* rig = nullptr;
    const auto outside = [&](std::size_t unit) {
      return std::make_unique<Probe>([&, unit](const std::string& when) {
        const auto event = when + " " + rig->chain[unit]->name();
        if (when != "after_backward" && when != "end_backward") return;
        Whole* whole = nullptr;
        {
          const std::lock_guard lock(mutex);
          whole = &seen[event];
        }
        merge(*whole, mutex, rig->engine->gradient_boxes());
      });
    };
    Rig own(communicator, {}, outside);
    rig = &own;
    run_step(own, communicator, 1, 0);
  });
  const auto& after_head = seen.at("after_backward head");
  CHECK(at::equal(after_head.at("head"), expected.at("head")));
  CHECK(after_head.at("table").eq(0).all().item<bool>());  // nothing yet, though both halves will be large
  CHECK(after_head.at("layer1.q").eq(0).all().item<bool>());
  const auto& after_layer = seen.at("after_backward layer1");
  CHECK(at::equal(after_layer.at("layer1.q"), expected.at("layer1.q")));
  CHECK(after_layer.at("table").eq(0).all().item<bool>());
  CHECK(seen.at("after_backward table").at("table").eq(0).all().item<bool>());
  CHECK(expected.at("table").ne(0).any().item<bool>());
}

TEST_CASE("a frozen weight is gathered, but has no gradient, no master of its own and no norm") {
  const int world = GENERATE(1, 3);
  const bool sharded = GENERATE(true, false);
  RigOptions options{.sharded = sharded, .layer2_trains = false};
  const auto result = train(world, options);
  CHECK(close(result.gradients, plain_gradients(options, batches_of(world, 1, 0)), tolerance));
  CHECK(result.gradients.count("layer2.q") == 0);
  CHECK(result.norms.numel() == 5);
  options.precision = {at::kBFloat16, at::kFloat, at::kFloat, c10::Device(c10::DeviceType::CPU)};
  Faults faults;
  run_in_process(world, [&](Communicator& communicator) {
    Rig rig(communicator, options);
    run_step(rig, communicator, 1, 0);
    for (const auto& stored : rig.engine->stored_boxes()) {
      const auto expected = stored.record->trainable ? at::kFloat : at::kBFloat16;
      faults.expect(stored.value.scalar_type() == expected, "stored dtype of " + stored.record->name);
      faults.expect(stored.record->param.dtype == expected, "recorded dtype of " + stored.record->name);
    }
    for (const auto& weight : rig.chain[2]->weights()) {
      faults.expect(!weight->value().grad().defined(), "gradient of " + weight->name());
    }
  });
  CHECK(faults.list() == std::vector<std::string>{});
}

TEST_CASE("update: the rule sees every element once with its gradient and state, and the next forward its result") {
  const int world = GENERATE(1, 2, 4);
  const bool sharded = GENERATE(true, false);
  const auto compute = GENERATE(at::kDouble, at::kFloat);
  INFO("world " << world << " sharded " << sharded);
  RigOptions options{.sharded = sharded};
  options.precision.compute = compute;
  std::mutex mutex;
  Faults faults;
  Whole stored;
  Whole gradients;
  run_in_process(world, [&](Communicator& communicator) {
    Rig rig(communicator, options);
    for (int step = 0; step < 2; ++step) {
      run_step(rig, communicator, 1, 0);
      if (step == 0) merge(gradients, mutex, rig.engine->gradient_boxes());
      update_with(rig, [&](std::vector<optimizer::Slice>& slices) {
        faults.expect(slices.size() == 8, "number of slices");
        for (auto& slice : slices) {
          const auto name = slice.weight->name();
          faults.expect(slice.state.size() == 2 && slice.state[0].sizes() == slice.master.sizes(), "state of " + name);
          faults.expect(slice.grad.sizes() == slice.master.sizes(), "sizes of " + name);
          // Kept from step to step, zero at first.
          faults.expect(slice.state[1].eq(step).all().item<bool>(), "state's value of " + name);
          slice.state[1].add_(1);
          if (step == 0) slice.master.sub_(slice.grad.to(slice.master.scalar_type()), 0.125);
        }
      });
      if (step == 0) merge(stored, mutex, rig.engine->stored_boxes());
    }
  });
  CHECK(faults.list() == std::vector<std::string>{});
  CHECK(gradients.size() == 10);
  for (const auto& [name, gradient] : gradients) {
    INFO(name);
    const auto record = tiny_record(name, gradient.sizes().vec(), true);
    CHECK(at::equal(stored.at(name), initial(record) - 0.125 * gradient.to(at::kDouble)));
  }
}

TEST_CASE("a forward after an update computes with the new values") {
  const int world = GENERATE(1, 3);
  const bool sharded = GENERATE(true, false);
  const auto compute = GENERATE(at::kDouble, at::kFloat);
  RigOptions options{.sharded = sharded};
  options.precision.compute = compute;
  Faults faults;
  run_in_process(world, [&](Communicator& communicator) {
    Rig* rig = nullptr;
    int checked = 0;
    bool updated = false;
    const auto inside = [&](std::size_t unit) {
      return std::make_unique<Probe>([&, unit](const std::string& when) {
        if (when != "before_forward" || !updated) return;
        for (const auto& weight : rig->chain[unit]->weights()) {
          faults.expect(at::equal(weight->value(), initial(*weight).mul(2).to(compute)), weight->name());
          ++checked;
        }
      });
    };
    Rig own(communicator, options, {}, inside);
    rig = &own;
    run_step(own, communicator, 1, 0);
    update_with(own, [](std::vector<optimizer::Slice>& slices) {
      for (auto& slice : slices) slice.master.mul_(2);
    });
    updated = true;
    run_step(own, communicator, 1, 1);
    faults.expect(checked == 9, "number of weights");
  });
  CHECK(faults.list() == std::vector<std::string>{});
}

TEST_CASE("a weight that the loss does not reach has a gradient of zero, not an earlier one") {
  const int world = GENERATE(1, 2);
  const bool sharded = GENERATE(true, false);
  Faults faults;
  run_in_process(world, [&](Communicator& communicator) {
    bool reached = true;
    TinyChain chain;
    chain.push_back(std::make_unique<TinyTable>(tiny_weight("table", {7, 5}, true), false));
    chain.push_back(std::make_unique<Unused>(reached));
    chain.push_back(std::make_unique<TinyHead>(tiny_weight("head", {6, 5}, true)));
    std::vector<int> everyone;
    for (int r = 0; r < world; ++r) everyone.push_back(r);
    auto group = communicator.group("data", everyone, c10::Device(c10::DeviceType::CPU));
    shard::EngineOptions options;
    options.mesh = layout::Mesh({{layout::Axis::dp, world}});
    options.rank = communicator.world().rank;
    options.policy.shard_param = options.policy.shard_grad = options.policy.shard_optim = sharded;
    shard::Engine engine(options, pointers(chain), [&](const auto&, std::int64_t) { return group; });
    nn::InitSource source(5);
    engine.fill(source);
    step::UnitRunner runner(pointers(chain));
    for (std::size_t i = 0; i < chain.size(); ++i) runner.add_hooks(i, engine.hooks(i));
    for (const bool now : {true, false}) {
      reached = now;
      const auto loss = runner.forward(tiny_batch(0)).states;
      runner.backward(loss, at::ones_like(loss));
      const auto norms = engine.squared_grad_norms();
      group->all_reduce(norms, comm::ReduceOp::sum, "norms");
      // Weights come unit by unit: table, unused, head.
      faults.expect((norms[1].item<double>() > 0) == now, now ? "no gradient" : "an old gradient");
    }
  });
  CHECK(faults.list() == std::vector<std::string>{});
}

}  // namespace engine_test
