// What the engine computes with, and what it holds.
#include <ATen/ATen.h>
#include <capstan_catch.h>

#include "checkpoint/decoded_source.h"
#include "nn/init_source.h"
#include "plugins/strategies/nf4/codec.h"
#include "shard/rig.h"

namespace engine_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

// A table, a frozen layer whose two matrices are packed, one that is trained, and a head.
TinyChain packed_chain() {
  const auto table = tiny_weight("table", {7, 256}, true);
  TinyChain chain;
  chain.push_back(std::make_unique<TinyTable>(table, false));
  chain.push_back(std::make_unique<TinyLayer>("layer1", true, TinyLayer::Sizes{256, 3, 4}, 0));
  chain.push_back(std::make_unique<TinyLayer>("layer2", false, TinyLayer::Sizes{256, 128, 256}, 0));
  chain.push_back(std::make_unique<TinyLayer>("layer3", true, TinyLayer::Sizes{256, 3, 4}, 0));
  chain.push_back(std::make_unique<TinyHead>(table));
  for (std::size_t i : {0, 1}) chain[2]->weights()[i]->set_codec(std::make_shared<nf4::Codec>(0));
  return chain;
}

struct Kept {
  TinyChain chain = packed_chain();
  std::shared_ptr<comm::Group> group;
  std::shared_ptr<comm::Group> alone;
  std::unique_ptr<shard::Engine> engine;
  std::unique_ptr<step::UnitRunner> runner;

  Kept(comm::Communicator& communicator, bool sharded, bool broadcasts) {
    const auto rank = communicator.world().rank, world = communicator.world().size;
    std::vector<int> everyone(static_cast<std::size_t>(world));
    std::iota(everyone.begin(), everyone.end(), 0);
    const c10::Device cpu(c10::DeviceType::CPU);
    group = communicator.group("data", everyone, cpu);
    alone = communicator.group("rank " + std::to_string(rank), {rank}, cpu);
    shard::EngineOptions options;
    options.mesh = layout::Mesh({{layout::Axis::dp, world}});
    options.rank = rank;
    options.precision.compute = at::kBFloat16;
    options.policy.shard_param = options.policy.shard_grad = options.policy.shard_optim = sharded;
    options.policy.sync_module_states = broadcasts;
    options.policy.forward_prefetch = false;
    engine = std::make_unique<shard::Engine>(
        options, pointers(chain), [&](const auto& axes, std::int64_t) { return axes.empty() ? alone : group; });
    nn::InitSource source(5);
    engine->fill(source);
    runner = std::make_unique<step::UnitRunner>(pointers(chain));
    for (std::size_t i = 0; i < chain.size(); ++i) runner->add_hooks(i, engine->hooks(i));
  }
};

std::int64_t bytes_of(const std::vector<layout::Footprint>& parts, const std::string& name) {
  for (const auto& part : parts) {
    if (part.part == name) return part.bytes;
  }
  return 0;
}

}  // namespace

TEST_CASE("a unit computes with what export decodes, and its weights are there only for it") {
  const int world = GENERATE(1, 2, 3, 5, 6);
  const bool sharded = GENERATE(false, true), broadcasts = GENERATE(false, true);
  INFO(world << " ranks, sharded " << sharded << ", broadcasts " << broadcasts);
  Faults faults;
  comm::run_in_process(world, [&](comm::Communicator& communicator) {
    Kept kept(communicator, sharded, broadcasts);
    nn::InitSource initial(5);
    checkpoint::DecodedSource decoded(initial, pointers(kept.chain), at::kBFloat16);
    const auto& layer = kept.chain[2];
    int seen = 0;
    layer->on_forward = [&](int) {
      ++seen;
      for (const auto& weight : {layer->weights()[0], layer->weights()[1]}) {
        std::int64_t row = 0;
        for (const auto& record : weight->records()) {
          auto expected = at::empty(record.shape, at::kBFloat16), plain = at::empty(record.shape, at::kBFloat16);
          decoded.fill(record, layout::Box::whole(record.shape), expected);
          initial.fill(record, layout::Box::whole(record.shape), plain);
          const auto value = weight->value().narrow(0, row, record.shape[0]);
          faults.expect(at::equal(value, expected), "computes with what is decoded: " + record.name);
          faults.expect(!at::equal(value, plain), "is not what was read: " + record.name);
          row += record.shape[0];
        }
      }
    };
    const auto released = [&](const std::string& when) {
      faults.expect(layer->weights()[0]->value().storage().nbytes() == 0, "released " + when);
    };
    released("at first");
    kept.engine->begin_backward(0);
    const auto loss = kept.runner->forward(tiny_batch(communicator.world().rank)).states;
    released("after forward");
    kept.runner->backward(loss, at::ones({}, loss.options()));
    released("after backward");
    faults.expect(seen == 1, "its forward ran");
    const auto said = kept.engine->footprint(), held = kept.engine->held();
    faults.expect(bytes_of(said, "parameters") == bytes_of(held, "parameters"), "the footprint is what is held");
    // 384 x 256 + 256 x 384 elements, in half a byte and a 64th part of a byte each, of three records.
    constexpr std::int64_t elements = std::int64_t{2} * 384 * 256;
    // A rank has room for its share of groups of 64 · 256 elements; the records have 2, 4 and 2 times 3 groups.
    const auto of = [&](int groups) { return sharded ? (groups + world - 1) / world : groups; };
    const auto least = (elements / 2 + elements / 64) / 12 * (of(2) + of(4) + 3 * of(2));
    const auto boxes = kept.engine->stored_boxes();
    for (const auto& stored : boxes) {
      faults.expect(stored.record->name.find("layer2") == std::string::npos || stored.record->name == "layer2.bias",
                    "no box of " + stored.record->name);
    }
    std::int64_t of_boxes = 0;
    for (const auto& stored : boxes) of_boxes += stored.value.numel();
    faults.expect(bytes_of(held, "parameters") > least + 4 * of_boxes, "holds the bytes");
    faults.expect(
        bytes_of(held, "parameters") < least + std::int64_t{3} * 1400 + 8 * of_boxes + (sharded ? 16384 : 4096),
        "holds little besides");
  });
  CHECK(faults.list() == std::vector<std::string>{});
}

}  // namespace engine_test
