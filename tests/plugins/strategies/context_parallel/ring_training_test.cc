// What ranks learn whose keys and values go around is what one rank learns.
#include <ATen/ATen.h>
#include <capstan/strategy.h>
#include <capstan/strategy_parts/collectives.h>
#include <capstan_catch.h>

#include <utility>

#include "plugins/strategies/context_parallel/cases.h"
#include "plugins/strategies/context_parallel/columns.h"
#include "plugins/strategies/context_parallel/ring.h"
#include "support/compositions.h"

namespace ring_training_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

const std::string packed = "[data]\npacking = true\n";
const std::string full_shard = "[strategy.fsdp]\nmode = \"full_shard\"\n";
const std::string tp = "[strategy.tensor_parallel]\nsize = 2\n";

std::string ring_on(int size) { return context_on(size, "ring"); }

void check(const std::string& same, const std::string& split, int world) {
  INFO(same << split << world << " ranks");
  CHECK(differences(train(context_setting(same + split, world)), alone(same), context_tolerance) == "");
}

// Without dropout on attention's probabilities.
std::string plain(Family family) {
  const std::string dropout = "attention_dropout = 0.1\n";
  const auto at = family.options.find(dropout);
  if (at != std::string::npos) family.options.erase(at, dropout.size());
  if (family.plugin == "gpt") family.options += "attention_dropout = 0\n";
  return family_config(family);
}

std::string windowed() {
  return family_config({"llama",
                        "model_type = \"mistral\"\nsliding_window = 5\nff_dim = 22\nhidden_size = 16\nnum_heads = 4\n"
                        "num_kv_heads = 2\n"});
}

}  // namespace

TEST_CASE("float64, ring: every family, on 2, 3 and 4 ranks, packed or not", "[matrix]") {
  bool on_two = true;
  for (const auto& family : families()) {
    const auto model = plain(family);
    const int ranks = on_two ? 2 : 4;
    check(model, ring_on(ranks), ranks);
    check(model, ring_on(3) + packed, 3);
    on_two = !on_two;
  }
  for (const auto& family : odd_families()) {
    if (family.plugin != "gpt_oss")
      check(plain(family), ring_on(4) + packed, 4);  // it has sinks, which the ring refuses
  }
}

TEST_CASE("float64, ring: windows", "[matrix]") {
  for (const auto& data : {std::string(), packed}) {
    check(windowed(), ring_on(2) + data, 2);
    check(windowed(), ring_on(3) + data, 3);
    check(windowed(), ring_on(4) + data, 4);
  }
}

TEST_CASE("float64, ring: together with splits, shards, experts, adapters and recompute", "[matrix]") {
  const std::string again = "[strategy.recompute]\n", regions = again + "regions = [\"attention\", \"mlp\"]\n";
  const std::string sp = tp + "sequence_parallel = true\n", ep = "[strategy.expert_parallel]\nsize = 2\n";
  const auto packed_tp = packed + tp, packed_regions = packed + regions;
  const auto sharded_sp = sp + full_shard, packed_and_sharded = packed + sharded_sp;
  for (const auto& family : {families()[1], families()[2], mixture()}) {
    const auto model = plain(family);
    check(model, ring_on(2) + packed_tp, 4);
    check(model, ring_on(2) + sharded_sp, 4);
    check(model, ring_on(3) + packed_and_sharded, 6);
    check(model + adapters_of(family), ring_on(2) + packed_regions, 2);
  }
  check(windowed(), ring_on(2) + sp + packed + full_shard + again, 8);
  check(plain(mixture()), ring_on(2) + ep + again, 4);
  const std::string stages = "[strategy.pipeline_parallel]\nsize = 2\nschedule = ";
  check(plain(dense()), ring_on(2) + stages + "\"zero_bubble\"\n" + packed + full_shard, 8);
  check(plain(dense()) + adapters_of(dense()), ring_on(4) + packed + "[strategy.zero]\nstage = 3\n" + regions, 8);
}

namespace {

struct FaultyRingOptions {
  std::string fault = "none";
  static void describe(config::OptionTable<FaultyRingOptions>& t) {
    t.add("fault", &FaultyRingOptions::fault).doc("what is done wrong");
  }
};

void spoil(context_parallel::RingCall& call, const std::string& fault) {
  const auto rank = static_cast<std::size_t>(call.group->rank());
  auto& rules = call.rules;
  if (fault == "borders") rules.sequences = at::Tensor();
  if (fault == "window") rules.window.reset();
  if (fault == "positions") rules.positions = rules.positions.flip(1);
  if (fault == "slopes") rules.slopes = rules.slopes.flip(0);
  if (fault == "owners") {
    auto& of_next = call.columns[(rank + 1) % 4];
    std::swap(of_next[0], of_next[1]);
  }
}

// Four ranks share tokens, in a ring.
class FaultyRing : public strategy::Strategy {
 public:
  explicit FaultyRing(const config::Options<FaultyRingOptions>& options) : fault_(options->fault) {}
  void mesh(layout::MeshSpec& spec) override { spec.set(layout::Axis::cp, 4, "strategy.faulty_ring", "the test"); }
  void claim(strategy::Claims& claims) const override { claims.exclusive(strategy::sequence_cut_point); }
  void place(nn::Unit& unit, const strategy::Placement& placement) override {
    unit.each<nn::Attention>([&](nn::Attention& attention) {
      const context_parallel::Ring ring(placement.group({layout::Axis::cp}), unit.name());
      auto row = ring.row();
      row.run = [ring, fault = fault_](const nn::AttentionCall& attending) -> nn::AttentionResult {
        auto call = ring.call(attending);
        spoil(call, fault);
        return {ring_attention(attending.q, attending.k, attending.v, call)};
      };
      attention.rows().add(row);
      attention.around.fill("faulty_ring", [](const auto& core, const auto& q, const auto& k, const auto& v,
                                              const nn::Batch& batch) { return core(q, k, v, batch); });
    });
  }
  nn::SequenceCut cut_sequence(const strategy::Placement& placement) override {
    const auto rank = placement.mesh.coordinate(placement.rank, layout::Axis::cp);
    const auto group = placement.group({layout::Axis::cp});
    const ops::ReduceFromGroup sum(group, "all-reduce sums");
    const ops::CopyToGroup spread(group, "all-reduce gradients");
    nn::SequenceCut cut;
    cut.own = [rank](std::int64_t columns) { return context_parallel::own_columns(columns, 4, rank); };
    cut.sum = [sum, spread](const at::Tensor& x) { return spread(sum(x)); };
    cut.represents_sample = rank == 0;
    return cut;
  }

 private:
  std::string fault_;
};

std::string found(const std::string& same, const std::string& split, const std::string& fault) {
  auto run = context_setting(same + split + "[strategy.faulty_ring]\nfault = \"" + fault + "\"\n", 4);
  run.types.push_back(type<strategy::Strategy, FaultyRing, FaultyRingOptions>("strategy", "faulty_ring"));
  return differences(train(run), alone(same), context_tolerance);
}

}  // namespace

TEST_CASE("faults in what a ring knows of other ranks' columns are seen", "[matrix]") {
  const auto bloom = plain(families()[1]);
  CHECK(found(bloom, packed, "none") == "");
  for (const std::string fault : {"borders", "positions", "slopes", "owners"}) {
    INFO(fault);
    CHECK(found(bloom, packed, fault) != "");
  }
  CHECK(found(windowed(), "", "none") == "");
  CHECK(found(windowed(), "", "window") != "");
}

TEST_CASE("a ring is refused where the model drops in attention, with what to take instead") {
  const auto refused = [](const std::string& config) -> std::string {
    try {
      train(context_setting(config, 2));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK_THAT(refused(family_config(dense()) + ring_on(2)),
             Contains("strategy.context_parallel.method is ring, which has no dropout on attention's probabilities") &&
                 Contains("attention_dropout = 0") && Contains("\"ulysses\" or \"gather\""));
}

}  // namespace ring_training_test
