// The optimizer's state as boxes of records: given out, written to, taken up by the next update.
#include <capstan_catch.h>

#include "shard/rig.h"

namespace engine_views_test {

using namespace capstan;
using namespace capstan::testing;
using comm::Communicator;
using comm::run_in_process;

TEST_CASE("the rule's states are given out before the first update, and taken back") {
  const int stage = GENERATE(0, 1, 3);
  const int offload = GENERATE(0, 1);
  if (stage == 0 && offload > 0) return;
  INFO("stage " << stage << " offload " << offload);
  Faults faults;
  std::mutex mutex;
  Whole seen;
  run_in_process(3, [&](Communicator& communicator) {
    RigOptions options;
    options.policy = [&](strategy::ShardPolicy& policy) { set_stage(policy, stage, offload); };
    Rig rig(communicator, options);
    for (const auto& kept : rig.engine->state_boxes()) {
      const auto& record = *kept.stored.record;
      faults.expect(kept.states[1].eq(0).all().item<bool>(), record.name + " does not begin at zero");
      kept.states[1].copy_(slice(initial(record), kept.stored.box).reshape({-1}));
    }
    rig.micro_step(0, tiny_batch(communicator.world().rank));
    update_with(rig, [](std::vector<optimizer::Slice>& slices) {
      for (auto& part : slices) part.state[1].mul_(2);
    });
    std::vector<shard::StoredBox> second;
    for (auto& kept : rig.engine->state_boxes()) {
      second.push_back(kept.stored);
      second.back().value = kept.states[1];
    }
    merge(seen, mutex, second);
  });
  CHECK(faults.list() == std::vector<std::string>{});
  const auto chain = rig_chain({});
  for (const auto& weight : all_weights(chain)) {
    for (const auto& record : weight->records()) CHECK(at::equal(seen.at(record.name), 2 * initial(record)));
  }
}

}  // namespace engine_views_test
