// What the optimizer's rules update at once, and the blocks that their states count.
#include "shard/slices.h"

#include <capstan_catch.h>

#include "nn/blocks.h"
#include "shard/rig.h"

namespace slices_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

constexpr std::int64_t block = 4;

// States of several kinds, by element or by record.
class Blocks : public optimizer::Rule {
 public:
  explicit Blocks(optimizer::Grain grain) : grain_(grain) {}
  std::vector<optimizer::StateSpec> states(const layout::Param& record) const override {
    if (grain_ == optimizer::Grain::element) return {{"plain"}};
    if (record.shape.size() < 2) return {{"small", at::kDouble}};
    return {{"codes", at::kByte}, {"scales", at::kFloat, block}};
  }
  optimizer::Grain grain() const override { return grain_; }
  void apply(std::vector<optimizer::Slice>& /*slices*/, const optimizer::Update& /*update*/) override {}

 private:
  optimizer::Grain grain_;
};

shard::EngineOptions options_of(int ranks, int rank, int stage, optimizer::Grain grain) {
  shard::EngineOptions options;
  options.mesh = layout::Mesh({{layout::Axis::dp, ranks}});
  options.rank = rank;
  set_stage(options.policy, stage);
  options.optimizer = std::make_shared<strategy::Optimizer>(std::make_shared<Blocks>(grain));
  return options;
}

std::vector<shard::PlannedSlice> slices_of_rank(const TinyChain& chain, const shard::EngineOptions& options) {
  return shard::plan_slices(shard::make_plan(pointers(chain), options), options);
}

}  // namespace

TEST_CASE("a rule of elements gets whole weights, a rule of records the boxes that this rank has of them") {
  const auto chain = rig_chain({});
  const auto weights = slices_of_rank(chain, options_of(3, 1, 3, optimizer::Grain::element));
  CHECK(weights.size() == 8);
  for (const auto& slice : weights) {
    CHECK(slice.record == nullptr);
    CHECK(slice.states.size() == 1);
    CHECK(slice.states[0].buffer.elements == slice.elements);
  }
  std::map<std::string, std::int64_t> elements;
  for (int rank = 0; rank < 3; ++rank) {
    for (const auto& slice : slices_of_rank(chain, options_of(3, rank, 3, optimizer::Grain::record))) {
      elements[slice.record->name] += slice.elements;
      CHECK(slice.elements == slice.box.numel());
      const bool is_small = slice.record->shape.size() < 2;
      CHECK(slice.states.size() == (is_small ? 1 : 2));
      CHECK(slice.state_bytes() ==
            (is_small ? slice.elements * 8 : slice.elements + 4 * layout::blocks_in(slice.elements, block)));
    }
  }
  CHECK(elements.size() == 10);
  for (const auto& weight : all_weights(chain)) {
    for (const auto& record : weight->records()) CHECK(elements.at(record.name) == record.numel());
  }
}

TEST_CASE("states are where the masters are") {
  const auto chain = rig_chain({});
  auto options = options_of(2, 0, 2, optimizer::Grain::element);
  for (const bool offload : {false, true}) {
    set_stage(options.policy, 2, offload ? 1 : 0);
    for (const auto& slice : slices_of_rank(chain, options)) CHECK(slice.states[0].buffer.is_on_host() == offload);
  }
}

TEST_CASE("a group that takes a record of a fused weight divides the weight") {
  const auto chain = rig_chain({});
  auto options = options_of(1, 0, 0, optimizer::Grain::element);
  const auto rule = options.optimizer->groups().front().rule;
  const auto fused = std::find_if(chain.begin(), chain.end(), [](const auto& unit) {
    return std::any_of(unit->weights().begin(), unit->weights().end(),
                       [](const auto& w) { return w->records().size() > 1; });
  });
  REQUIRE(fused != chain.end());
  std::string name;
  for (const auto& weight : (*fused)->weights()) {
    if (weight->records().size() > 1) name = weight->records()[1].name;
  }
  options.optimizer = std::make_shared<strategy::Optimizer>(
      std::vector<strategy::OptimizerGroup>{{"groups.1", {name}, rule, 0.5}, {"optimizer", {}, rule}}, 0.1, true);
  int divided = 0;
  for (const auto& slice : slices_of_rank(chain, options)) {
    if (!slice.record) continue;
    ++divided;
    CHECK(slice.group->lr_factor == (slice.record->name == name ? 0.5 : 1));
    CHECK(slice.weight_decay == 0.1);
  }
  CHECK(divided >= 2);
}

}  // namespace slices_test
