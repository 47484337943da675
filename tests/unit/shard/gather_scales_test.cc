// Gathers of bytes in place of numbers, and the scales that ranks agree on.
#include <ATen/ATen.h>
#include <capstan/nn/codec.h>
#include <capstan_catch.h>

#include "shard/rig.h"

namespace gather_scales_test {

using namespace capstan;
using namespace capstan::testing;
using comm::Communicator;
using comm::run_in_process;

namespace {

const shard::Precision in_16_bits{at::kBFloat16, at::kFloat, at::kFloat, c10::Device(c10::DeviceType::CPU)};

// A number is a share of the largest, from 128 on; the scale is the largest.
at::Tensor bytes_of(const at::Tensor& values, const at::Tensor& largest) {
  return values.to(at::kFloat).div(largest).mul(100).round().add(128).to(at::kByte);
}

class Shares : public nn::Codec {
 public:
  Capabilities capabilities() const override { return {.gathers = true}; }
  std::string name() const override { return "shares"; }
  std::string fix() const override { return R"(set strategy.shares.gather = "bf16")"; }
  at::Tensor scales_of(const at::Tensor& largest) const override { return largest.mul(2); }
  void encode_to_gather(const at::Tensor& values, const at::Tensor& largest, const at::Tensor& to) const override {
    to.copy_(bytes_of(values, largest));
  }
  void bind_gathered(at::Tensor all, at::Tensor of_all) override {
    bytes = std::move(all);
    scale = std::move(of_all);
  }
  at::Tensor bytes, scale;
};

/// The chain's layers, two of whose weights are gathered in bytes, and an engine.
struct InBytes {
  TinyChain chain = rig_chain({});
  std::vector<std::shared_ptr<Shares>> codecs;
  std::unique_ptr<shard::Engine> engine;

  InBytes(Communicator& communicator, int stage, const std::function<void(shard::EngineOptions&)>& change = {}) {
    for (std::size_t i : {0, 1}) {
      codecs.push_back(std::make_shared<Shares>());
      chain[2]->weights()[i]->set_codec(codecs.back());
    }
    const auto [rank, world] = std::pair(communicator.world().rank, communicator.world().size);
    std::vector<int> everyone(static_cast<std::size_t>(world));
    std::iota(everyone.begin(), everyone.end(), 0);
    auto group = communicator.group("data", everyone, c10::Device(c10::DeviceType::CPU));
    shard::EngineOptions options;
    options.mesh = layout::Mesh({{layout::Axis::dp, world}});
    options.rank = rank;
    options.precision = in_16_bits;
    set_stage(options.policy, stage);
    options.policy.owner = "test";
    if (change) change(options);
    engine =
        std::make_unique<shard::Engine>(options, pointers(chain), [&](const auto&, std::int64_t) { return group; });
    nn::InitSource source(5);
    engine->fill(source);
  }
};

void expect_bytes(InBytes& rig, double factor, bool sharded, Faults& faults) {
  const auto hooks = rig.engine->hooks(2);
  rig.engine->begin_backward(0);
  hooks->before_forward();
  for (std::size_t i : {0, 1}) {
    const auto& weight = *rig.chain[2]->weights()[i];
    const auto values = initial(weight, at::kFloat).mul(factor).to(at::kBFloat16);
    const auto largest = values.abs().max().to(at::kFloat);
    faults.expect(weight.value().scalar_type() == at::kBFloat16 && weight.value().sizes() == values.sizes(),
                  "layers see the weight " + weight.name());
    faults.expect(weight.value().storage().nbytes() == 0, "without memory");
    faults.expect(at::equal(rig.codecs[i]->bytes, bytes_of(values, largest)), "all bytes of " + weight.name());
    faults.expect(at::equal(rig.codecs[i]->scale, largest.mul(2).view({1})), "the scale of " + weight.name());
    faults.expect(reinterpret_cast<std::uintptr_t>(rig.codecs[i]->scale.const_data_ptr()) % 16 == 0, "at 16 bytes");
  }
  const auto& bias = *rig.chain[2]->weights()[2];
  faults.expect(at::equal(bias.value(), initial(bias, at::kFloat).mul(factor).to(at::kBFloat16)),
                "numbers beside them");
  hooks->after_forward();
  faults.expect((rig.codecs[0]->bytes.storage().nbytes() == 0) == sharded, "bytes are there as long as gathered ones");
}

}  // namespace

TEST_CASE("units compute with the bytes of all ranks, and with scales of all, after each update") {
  const int world = GENERATE(2, 3);
  const int stage = GENERATE(2, 3);
  const bool coalesce = GENERATE(false, true);
  const bool casts = GENERATE(false, true);
  INFO(world << " ranks, stage " << stage << ", coalesces " << coalesce << ", casts at gathers " << casts);
  Faults faults;
  run_in_process(world, [&](Communicator& communicator) {
    InBytes rig(communicator, stage, [&](shard::EngineOptions& options) {
      options.coalesce = coalesce;
      options.policy.cast_at_gather = casts;
    });
    expect_bytes(rig, 1, stage == 3, faults);
    rig.engine->write_masters([&] {
      for (const auto& part : rig.engine->step_parts()) part.master.mul_(4);
    });
    expect_bytes(rig, 4, stage == 3, faults);
    std::map<std::string, std::int64_t> held, said;
    for (const auto& part : rig.engine->held()) held[part.part] += part.bytes;
    for (const auto& part : rig.engine->footprint()) said[part.part] += part.bytes;
    faults.expect(held["parameters"] == said["parameters"], "as many bytes as it said");
  });
  CHECK(faults.list() == std::vector<std::string>{});
}

TEST_CASE("nothing gathered, nothing in bytes") {
  run_in_process(2, [](Communicator& communicator) {
    const InBytes rig(communicator, 0);
    if (rig.codecs[0]->bytes.defined() || rig.chain[2]->weights()[0]->value().storage().nbytes() == 0)
      throw std::runtime_error("a weight that each rank holds is one like any other");
  });
}

TEST_CASE("what is sent from host memory or from neighbours is not sent in bytes") {
  const auto refusal = [](const std::function<void(strategy::ShardPolicy&)>& change) {
    std::string text;
    run_in_process(4, [&](Communicator& communicator) {
      try {
        const InBytes rig(communicator, 3, [&](shard::EngineOptions& options) { change(options.policy); });
      } catch (const Error& error) {
        if (communicator.world().rank == 0) text = error.what();
      }
    });
    return text;
  };
  CHECK_THAT(refusal([](auto& policy) { set_stage(policy, 3, 1); }),
             Contains("layer2.q+k cannot be gathered in 8 bits by strategy 'shares'") && Contains("host memory") &&
                 Contains("fix: set strategy.shares.gather = \"bf16\", or do not offload"));
  CHECK_THAT(refusal([](auto& policy) { policy.reshard_size = 2; }),
             Contains("fix: set strategy.shares.gather = \"bf16\", or leave reshard_size out"));
}

}  // namespace gather_scales_test
