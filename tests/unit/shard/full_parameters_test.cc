// The weights that units compute with: when they have memory, and their versions.
#include <ATen/core/grad_mode.h>
#include <capstan_catch.h>

#include "shard/probe.h"
#include "shard/rig.h"

namespace full_parameters_test {

using namespace capstan;
using namespace capstan::testing;
using comm::Communicator;
using comm::run_in_process;

namespace {

std::size_t bytes(const nn::WeightPtr& weight) { return weight->value().storage().nbytes(); }

}  // namespace

TEST_CASE("filling moves every leaf's version: who keeps something made of a weight makes it again") {
  run_in_process(1, [&](Communicator& communicator) {
    const Rig rig(communicator, {.layer2_trains = false});
    std::vector<std::int64_t> before;
    for (const auto& weight : all_weights(rig.chain)) before.push_back(weight->value()._version());
    nn::InitSource source(5);
    rig.engine->fill(source);
    std::size_t i = 0;
    for (const auto& weight : all_weights(rig.chain)) CHECK(weight->value()._version() > before[i++]);
    CHECK(i > 0);
  });
}

TEST_CASE("sharded leaves hold memory only around their unit's forward and backward, with the right values") {
  const int world = GENERATE(2, 4, 7);
  const bool reshard = GENERATE(true, false);
  INFO("world " << world << " reshard " << reshard);
  Faults faults;
  run_in_process(world, [&](Communicator& communicator) {
    Rig* rig = nullptr;
    const auto check_values = [&](std::size_t unit, const std::string& when) {
      for (const auto& weight : rig->chain[unit]->weights()) {
        faults.expect(bytes(weight) > 0 && at::equal(weight->value(), initial(*weight)), when + " " + weight->name());
      }
    };
    const auto inside = [&](std::size_t unit) {
      return std::make_unique<Probe>([&, unit](const std::string& when) {
        if (when != "end_backward") check_values(unit, when);
      });
    };
    Rig own(communicator, {.reshard_after_forward = reshard}, {}, inside);
    rig = &own;
    const auto check_freed = [&](bool all, const std::string& when) {
      for (const auto& weight : all_weights(own.chain)) {
        const bool stays =
            !all && (!reshard || weight->name() == "table" || weight->name() == "head");  // the last unit's
        faults.expect((bytes(weight) > 0) == stays, when + ": " + weight->name());
      }
    };
    check_freed(true, "at first");
    own.engine->begin_backward(0);
    const auto loss = own.runner->forward(tiny_batch(communicator.world().rank)).states;
    check_freed(false, "after forward");
    own.runner->backward(loss, at::ones_like(loss));
    check_freed(true, "after backward");
    const at::NoGradGuard no_grad;
    own.runner->forward(tiny_batch(0));
    check_freed(true, "after a forward without gradient");
  });
  CHECK(faults.list() == std::vector<std::string>{});
}

}  // namespace full_parameters_test
