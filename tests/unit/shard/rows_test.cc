// Weights in bytes: a codec's rows are sharded, gathered and kept as values would be.
#include <ATen/ATen.h>
#include <capstan/nn/codec.h>
#include <capstan_catch.h>

#include "shard/rig.h"

namespace rows_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

// A number is a hundredth of a byte from 100 on; a row's scale is its sum.
at::Tensor bytes_of_rows(const at::Tensor& values) { return values.mul(100).round().add(100).to(at::kByte); }

class Hundredths : public nn::Codec {
 public:
  Capabilities capabilities() const override { return {.packs = true, .computes_with_rows = true}; }
  std::string name() const override { return "hundredths"; }
  std::string fix() const override { return "leave them out"; }
  std::size_t stacked() const override { return 1; }
  std::int64_t bytes(const Extent& extent) const override { return extent.numel(); }
  void encode(const Extent&, const at::Tensor&, const at::Tensor&, const Sum&) const override {}
  void decode(const Extent&, const at::Tensor&, const at::Tensor&) const override {}
  at::Tensor encode_rows(const at::Tensor& values, const at::Tensor& bytes) const override {
    bytes.copy_(bytes_of_rows(values));
    return values.sum(1).to(at::kFloat);
  }
  void keep_scales(const at::Tensor& scales) override { kept = scales; }

  at::Tensor kept;
};

struct Layout {
  int world = 1;
  bool sharded = false;
  bool coalesce = false;
  bool on_host = false;
  bool broadcasts = false;
};

struct InRows {
  TinyChain chain;
  std::vector<std::shared_ptr<Hundredths>> codecs;
  std::unique_ptr<shard::Engine> engine;

  InRows(comm::Communicator& communicator, const Layout& of) {
    RigOptions sizes;
    sizes.layer2_trains = false;
    chain = rig_chain(sizes);
    for (std::size_t i : {0, 1}) {
      codecs.push_back(std::make_shared<Hundredths>());
      chain[2]->weights()[i]->set_codec(codecs.back());
    }
    std::vector<int> everyone(static_cast<std::size_t>(of.world));
    std::iota(everyone.begin(), everyone.end(), 0);
    const auto rank = communicator.world().rank;
    const c10::Device cpu(c10::DeviceType::CPU);
    const auto group = communicator.group("data", everyone, cpu);
    const auto alone = communicator.group("rank " + std::to_string(rank), {rank}, cpu);
    shard::EngineOptions options;
    options.mesh = layout::Mesh({{layout::Axis::dp, of.world}});
    options.rank = rank;
    options.precision = sizes.precision;
    options.coalesce = of.coalesce;
    options.policy.shard_param = options.policy.shard_grad = options.policy.shard_optim = of.sharded;
    options.policy.offload_param = options.policy.offload_optim = of.on_host;
    options.policy.sync_module_states = of.broadcasts;
    options.policy.owner = "test";
    engine = std::make_unique<shard::Engine>(
        options, pointers(chain), [&](const auto& axes, std::int64_t) { return axes.empty() ? alone : group; });
    nn::InitSource source(5);
    engine->fill(source);
  }
};

std::int64_t parameters_in(const std::vector<layout::Footprint>& parts) {
  std::int64_t bytes = 0;
  for (const auto& part : parts) bytes += part.part.find("parameters") == 0 ? part.bytes : 0;
  return bytes;
}

}  // namespace

TEST_CASE("units compute with the bytes of all rows, and every rank has all scales") {
  const auto of = GENERATE(Layout{1}, Layout{2}, Layout{2, true}, Layout{3, true}, Layout{3, true, true},
                           Layout{4, true, true}, Layout{2, true, false, true}, Layout{2, true, false, false, true});
  INFO(of.world << " ranks, sharded " << of.sharded << ", in place " << of.coalesce << ", on host " << of.on_host);
  Faults faults;
  comm::run_in_process(of.world, [&](comm::Communicator& communicator) {
    const InRows rig(communicator, of);
    const auto& layer = *rig.chain[2];
    const auto hooks = rig.engine->hooks(2);
    rig.engine->begin_backward(0);
    hooks->before_forward();
    for (std::size_t i : {0, 1}) {
      const auto& weight = *layer.weights()[i];
      const auto values = initial(weight);
      faults.expect(weight.value().scalar_type() == at::kByte, "bytes of " + weight.name());
      faults.expect(at::equal(weight.value(), bytes_of_rows(values)), "all rows of " + weight.name());
      faults.expect(at::allclose(rig.codecs[i]->kept, values.sum(1).to(at::kFloat)), "all scales of " + weight.name());
    }
    hooks->after_forward();
    const auto held = parameters_in(rig.engine->held()), said = parameters_in(rig.engine->footprint());
    faults.expect(held == said, "holds " + std::to_string(held) + " bytes and said " + std::to_string(said));
    for (const auto& stored : rig.engine->stored_boxes())
      faults.expect(stored.record->name.find("layer2") == std::string::npos || stored.record->name == "layer2.bias",
                    "no box of " + stored.record->name);
  });
  CHECK(faults.list() == std::vector<std::string>{});
}

}  // namespace rows_test
