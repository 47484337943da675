// What the engine says it allocates against what the allocator is asked for.
#include <capstan/matrix_rules/matrix_rule.h>
#include <capstan_catch.h>

#include "shard/counting.h"
#include "shard/rig.h"

namespace footprint_test {

using namespace capstan;
using namespace capstan::testing;
using comm::Communicator;
using comm::run_in_process;

namespace {

std::int64_t part(const std::vector<layout::Footprint>& footprints, const std::string& name) {
  for (const auto& footprint : footprints) {
    if (footprint.part == name) return footprint.bytes;
  }
  return -1;
}

std::int64_t always(const std::vector<layout::Footprint>& footprints) {
  std::int64_t sum = 0;
  for (const auto& footprint : footprints) sum += footprint.when == "always" ? footprint.bytes : 0;
  return sum;
}

// Has all matrices whole, in memory of known size.
class Squares : public matrix_rules::MatrixRule {
 public:
  using MatrixRule::MatrixRule;
  std::vector<optimizer::StateSpec> states(const layout::Param& /*record*/) const override { return {{"sum"}}; }
  std::optional<matrix_rules::WholeSpec> whole_spec(const layout::Param& record, c10::ScalarType master,
                                                    c10::DeviceType /*device*/) const override {
    return matrix_rules::WholeSpec{master, 1, 8 * record.numel(), {{"kept", at::kFloat, {3}}}};
  }
  void begin(std::vector<matrix_rules::Part>& parts, const optimizer::Update& /*update*/) override {
    for (auto& part : parts) {
      if (part.part.defined()) part.part.copy_(part.state[0]);
    }
  }
  void whole(const matrix_rules::Matrices& matrices, const optimizer::Update& /*update*/) override {
    matrices.value.copy_(at::empty_like(matrices.value));
  }
  void finish(std::vector<matrix_rules::Part>& /*parts*/, const optimizer::Update& /*update*/) override {}
  void apply(std::vector<optimizer::Slice>& /*slices*/, const optimizer::Update& /*update*/) override {}
};

void use_states(Rig& rig) {
  testing::update_with(rig, [](std::vector<optimizer::Slice>&) {});
}

}  // namespace

TEST_CASE("the engine allocates what its footprint says") {
  const int world = GENERATE(1, 2, 3, 8);
  const int stage = GENERATE(0, 1, 2, 3);
  const int offload = GENERATE(0, 1, 2, 3);  // 3: as 1, for half of the parameters
  if ((offload > 0 && stage == 0) || (offload == 2 && stage < 3)) return;
  const std::int64_t accumulation = GENERATE(1, 2);
  const auto reduce = GENERATE(shard::ReduceWhen::step, shard::ReduceWhen::micro_step);
  const bool mixed = GENERATE(false, true);
  const bool coalesce = GENERATE(false, true);
  // One rank without accumulation reads autograd's own gradients: they are counted, but come with the first backward.
  const bool raw = world == 1 && accumulation == 1 && !mixed && offload == 0;
  INFO("world " << world << " stage " << stage << " offload " << offload << " accumulation " << accumulation
                << " mixed " << mixed << " coalesce " << coalesce);
  RigOptions options{.accumulation = accumulation, .reduce = reduce, .layer2_trains = !mixed, .coalesce = coalesce};
  options.policy = [&](strategy::ShardPolicy& policy) {
    set_stage(policy, stage, offload == 3 ? 1 : offload);
    if (offload == 3) policy.offload_ratio = 0.5;
  };
  if (mixed) options.precision = {at::kBFloat16, at::kFloat, at::kFloat, c10::Device(c10::DeviceType::CPU)};
  Faults faults;
  const Counting counting;
  run_in_process(world, [&](Communicator& communicator) {
    const auto before = live;
    Rig rig(communicator, options);
    use_states(rig);
    const auto footprint = rig.engine->footprint();
    const auto expected = always(footprint) - (raw ? part(footprint, "gradients") : 0);
    faults.expect(live - before == expected,
                  "allocated " + std::to_string(live - before) + ", said " + std::to_string(expected));
    std::int64_t held = 0;
    for (const auto& one : rig.engine->held()) {
      held += one.bytes;
      if (raw && one.part == "gradients") continue;
      // Nothing is gathered between steps.
      const auto said = one.part == "gathered units" ? 0 : part(footprint, one.part);
      faults.expect(one.bytes == said,
                    one.part + " hold " + std::to_string(one.bytes) + ", not what the footprint says");
    }
    faults.expect(held == live - before, "parts hold " + std::to_string(held) + " together");
  });
  CHECK(faults.list() == std::vector<std::string>{});
}

TEST_CASE("an update has as much memory for whole matrices as the footprint says, and frees it") {
  const int world = GENERATE(1, 2, 3, 4);
  const int stage = GENERATE(0, 2, 3);
  const std::int64_t most = GENERATE(1, 60, 1000);
  INFO("world " << world << " stage " << stage << " most " << most);
  Faults faults;
  const Counting counting;
  run_in_process(world, [&](Communicator& communicator) {
    RigOptions options{.optimizer = std::make_shared<Squares>(most)};
    options.policy = [&](strategy::ShardPolicy& policy) { set_stage(policy, stage); };
    Rig rig(communicator, options);
    rig.micro_step(0, tiny_batch(communicator.world().rank));
    rig.engine->update(0, {});
    const auto before = peak = live;
    rig.engine->update(0, {});
    const auto said = part(rig.engine->footprint(), "whole matrices");
    faults.expect(live == before, "an update keeps memory");
    std::int64_t states = 0;
    for (const auto& state : rig.engine->joint_states()) states += static_cast<std::int64_t>(state.value.nbytes());
    faults.expect(world > 1 || states == std::int64_t{7} * 3 * 4,
                  "one rank keeps " + std::to_string(states) + " bytes for matrices");
    const auto of_states = part(rig.engine->held(), "optimizer state");
    faults.expect(of_states == part(rig.engine->footprint(), "optimizer state") && of_states > states,
                  "states take " + std::to_string(of_states));
    faults.expect(peak - before == said,
                  "an update takes " + std::to_string(peak - before) + ", not " + std::to_string(said));
  });
  CHECK(faults.list() == std::vector<std::string>{});
}

TEST_CASE("what is gathered at once is what the footprint says") {
  const int world = GENERATE(2, 3, 8);
  const bool reshard = GENERATE(true, false);
  Faults faults;
  const Counting counting;
  run_in_process(world, [&](Communicator& communicator) {
    Rig rig(communicator, {.reshard_after_forward = reshard});
    std::vector<std::unique_ptr<strategy::UnitHooks>> hooks;
    for (std::size_t i = 0; i < rig.chain.size(); ++i) hooks.push_back(rig.engine->hooks(i));
    const auto before = live;
    std::int64_t most = 0;
    const auto look = [&] {
      most = std::max(most, live - before);
      faults.expect(part(rig.engine->held(), "gathered units") == live - before, "gathered units are other tensors");
    };
    for (auto& unit : hooks) {
      unit->before_forward();
      look();
      unit->after_forward();
    }
    for (std::size_t i = hooks.size(); i-- > 0;) {
      hooks[i]->before_backward();
      look();
      hooks[i]->after_backward();
    }
    faults.expect(live == before, "something is left");
    const auto said = part(rig.engine->footprint(), "gathered units");
    faults.expect(most == said, "gathered " + std::to_string(most) + ", said " + std::to_string(said));
  });
  CHECK(faults.list() == std::vector<std::string>{});
}

TEST_CASE("a rank's footprint, by hand") {
  // Each of the 8 weights has at most 55 elements, with padding 64; 230 elements in all. One rank reads autograd's own
  // gradients, which have no padding.
  run_in_process(1, [](Communicator& communicator) {
    const auto footprint = Rig(communicator, {}).engine->footprint();
    CHECK(part(footprint, "parameters") == std::int64_t{64} * 8 * 8);
    CHECK(part(footprint, "gradients") == std::int64_t{230} * 8);
    CHECK(part(footprint, "optimizer state") == std::int64_t{230} * 2 * 8);
    CHECK(part(footprint, "collective buffers") == 0);
    CHECK(part(footprint, "gathered units") == 0);
  });
  // On two ranks a shard takes 64 elements too, and a unit gathers up to three weights.
  Faults faults;
  run_in_process(2, [&](Communicator& communicator) {
    const auto footprint = Rig(communicator, {}).engine->footprint();
    const auto expect = [&](const std::string& name, std::int64_t bytes) {
      faults.expect(part(footprint, name) == bytes, name + " is " + std::to_string(part(footprint, name)));
    };
    expect("parameters", std::int64_t{64} * 8 * 8);
    expect("gradients", std::int64_t{64} * 8 * 8);
    expect("optimizer state", std::int64_t{64} * 2 * 8 * 8);
    expect("collective buffers", std::int64_t{64} * (2 + 2) * 3 * 8);
    // Two layers at once, one of them ahead; the second's 5 rows of 11 take 2 x 3 rows with padding: 66 elements.
    expect("gathered units", std::int64_t{64} * (2 * 3 + 1) * 8);
  });
  CHECK(faults.list() == std::vector<std::string>{});
}

TEST_CASE("offloaded, a rank's gradients need staging on the device, and what comes back does") {
  // Buckets of the table, layer1, layer2 and the head's own: the layers have three weights of 64 elements each, with
  // padding.
  const auto expect = [](std::int64_t accumulation, c10::ScalarType reduce, std::int64_t on_their_way,
                         std::int64_t on_host) {
    INFO("accumulation " << accumulation << " reduce " << reduce);
    Faults faults;
    run_in_process(2, [&](Communicator& communicator) {
      RigOptions options{.accumulation = accumulation, .reduce = shard::ReduceWhen::micro_step};
      options.precision = {at::kBFloat16, at::kFloat, reduce, c10::Device(c10::DeviceType::CPU)};
      options.policy = [](strategy::ShardPolicy& policy) { set_stage(policy, 2, 1); };
      const auto footprint = Rig(communicator, options).engine->footprint();
      faults.expect(part(footprint, "gradients") == 0, "gradients stay");
      faults.expect(part(footprint, "gradients on their way") == on_their_way,
                    "staging takes " + std::to_string(part(footprint, "gradients on their way")));
      faults.expect(part(footprint, "offloaded gradients") == on_host,
                    "on the host " + std::to_string(part(footprint, "offloaded gradients")));
    });
    CHECK(faults.list() == std::vector<std::string>{});
  };
  const std::int64_t largest = std::int64_t{64} * 3;
  const std::int64_t all = std::int64_t{64} * 8;
  expect(1, at::kFloat, 2 * largest * 4, all * 4);
  expect(2, at::kFloat, largest * (2 * 4 + 4), all * 4);
  expect(1, at::kBFloat16, 2 * largest * 2, all * 2);
  expect(2, at::kBFloat16, largest * (2 * 4 + 2), all * 4);
  expect(3, at::kBFloat16, largest * (2 * 4 + 4), all * 4);
}

}  // namespace footprint_test
