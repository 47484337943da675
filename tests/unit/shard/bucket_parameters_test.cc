// What parameters are filled with.
#include "shard/bucket_parameters.h"

#include <capstan_catch.h>

#include "shard/rig.h"

namespace bucket_parameters_test {

using namespace capstan;
using namespace capstan::testing;
using comm::Communicator;
using comm::run_in_process;

TEST_CASE("fill gives every rank its slice of the whole, whatever the world size") {
  const int world = GENERATE(1, 2, 3, 4, 6, 8);
  const bool sharded = GENERATE(true, false);
  INFO("world " << world << " sharded " << sharded);
  std::mutex mutex;
  std::map<std::string, std::int64_t> counted;
  bool equal = true;
  run_in_process(world, [&](Communicator& communicator) {
    const Rig rig(communicator, {.sharded = sharded});
    const std::lock_guard lock(mutex);
    for (const auto& stored : rig.engine->stored_boxes()) {
      const auto expected = slice(initial(*stored.record), stored.box);
      equal = equal && at::equal(stored.value.view(stored.box.size), expected);
      if (stored.writes_to_checkpoint) counted[stored.record->name] += stored.box.numel();
    }
  });
  CHECK(equal);
  const auto chain = rig_chain({});
  std::size_t records = 0;
  for (const auto& weight : all_weights(chain)) {
    for (const auto& record : weight->records()) {
      CHECK(counted[record.name] == record.numel());  // one rank counts each element
      ++records;
    }
  }
  CHECK(counted.size() == records);
}

TEST_CASE("progress goes up to the number of parameters") {
  run_in_process(1, [&](Communicator& communicator) {
    const Rig rig(communicator, {.layer2_trains = false});
    std::vector<std::int64_t> done;
    nn::InitSource source(5);
    rig.engine->fill(source, [&](std::int64_t now, std::int64_t all) {
      done.push_back(now);
      CHECK(all == 230);
    });
    CHECK(std::is_sorted(done.begin(), done.end()));
    CHECK(done.back() == 230);
  });
}

}  // namespace bucket_parameters_test
