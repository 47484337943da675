// Experts that are cut twice: their number along ep, and ff along tp by another strategy.
#include <capstan/strategy.h>
#include <capstan/strategy_parts/collectives.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include "plugins/strategies/expert_parallel/mixtures.h"

namespace two_cuts_test {

using namespace capstan;
using layout::Axis;

namespace {

struct NoOptions {
  static void describe(config::OptionTable<NoOptions>&) {}
};

/// Cuts every expert's ff over two ranks along tp and leaves all else whole there.
class SplitFf : public strategy::Strategy {
 public:
  explicit SplitFf(const config::Options<NoOptions>&) {}
  void mesh(layout::MeshSpec& spec) override { spec.set(Axis::tp, 2, "strategy.split_ff", ""); }
  void place(nn::Unit& unit, const strategy::Placement& placement) override {
    for (auto* experts : unit.all<nn::Experts>()) {
      for (const auto& weight : {experts->gate_up(), experts->down()}) {
        for (auto& record : weight->records()) record.compute = record.compute.with({2, {Axis::tp}});
      }
      const auto group = placement.group({Axis::tp});
      experts->before.fill("split_ff", ops::CopyToGroup(group, "tp experts' input"));
      experts->before_weights.fill("split_ff", ops::CopyToGroup(group, "tp experts' weights"));
      experts->after.fill("split_ff", ops::ReduceFromGroup(group, "tp experts' output"));
    }
  }
};

}  // namespace

TEST_CASE("experts cut along ep and their ff along tp learn what one rank does", "[matrix]") {
  const auto split = testing::type<strategy::Strategy, SplitFf, NoOptions>("strategy", "split_ff");
  const auto alone = testing::train({.config = testing::mixture(), .steps = 3});
  for (const int world : {4, 8}) {
    for (const std::string data : {"", "[strategy.fsdp]\n", "[strategy.zero]\nstage = 1\n"}) {
      INFO(world << " ranks\n" << data);
      const auto run =
          testing::train({.world = world,
                          .config = testing::mixture() + testing::experts_on(2) +
                                    "[strategy.split_ff]\n[strategy.recompute]\nregions = [\"mlp\"]\n" + data,
                          .steps = 3,
                          .types = {split}});
      // Sums in float64 in another order.
      CHECK(testing::differences(run, alone, 1e-10) == "");
    }
  }
}

}  // namespace two_cuts_test
