// A trained weight that backward does not reach ends the run after its first step, and is named.
#include "step/gradient_check.h"

#include <ATen/ATen.h>
#include <capstan/strategy.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include "support/families.h"
#include "support/in_stages.h"

namespace gradient_check_test {

using namespace capstan;

namespace {

struct LosingOptions {
  bool everywhere = true;
  static void describe(config::OptionTable<LosingOptions>& t) {
    t.add("everywhere", &LosingOptions::everywhere).doc("on each rank; else only on rank 0");
  }
};

// The first product of the first block does not tell its weight what gradient it has.
class Losing : public strategy::Strategy {
 public:
  explicit Losing(config::Options<LosingOptions> options) : options_(std::move(options)) {}
  void place(nn::Unit& unit, const strategy::Placement& placement) override {
    const auto linears = unit.all<nn::Linear>();
    if (done_ || linears.empty()) return;
    done_ = true;
    if (placement.rank > 0 && !options_->everywhere) return;
    linears.front()->multiply.fill(
        "losing", [](const at::Tensor& x, const at::Tensor& weight) { return at::matmul(x, weight.detach().t()); });
  }

 private:
  config::Options<LosingOptions> options_;
  bool done_ = false;
};

std::string refusal(const std::string& tables, int world) {
  try {
    testing::train({.world = world,
                    .config = testing::family_config(testing::families().front()) + tables,
                    .steps = 2,
                    .types = {testing::type<strategy::Strategy, Losing, LosingOptions>("strategy", "losing"),
                              testing::in_stages()}});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a weight without a gradient is refused by its records' names, with what it was joined with") {
  const auto joins = GENERATE(as<std::string>(), "[strategy.fsdp]\nwrap = 4\n", "[strategy.zero]\nstage = 1\n",
                              "[strategy.fsdp]\nmode = \"no_shard\"\n", "");
  const int world = GENERATE(1, 2);
  INFO(joins << world << " ranks");
  const auto text = refusal("[strategy.losing]\n" + joins, world);
  CHECK_THAT(text, Contains("left 3 trainable records without a gradient, so training would never change them") &&
                       Contains("h.0.attn.q.weight, h.0.attn.k.weight, h.0.attn.v.weight, joined in "));
  CHECK_THAT(text, !Contains("on rank"));
}

TEST_CASE("a weight that has a gradient on one of the ranks that are added up is trained") {
  CHECK(refusal("[strategy.losing]\neverywhere = false\n[strategy.fsdp]\n", 2) == "");
  CHECK_THAT(refusal("[strategy.losing]\neverywhere = false\n[strategy.fsdp]\n", 1), Contains("without a gradient"));
}

TEST_CASE("ranks that hold different parts of a weight are each asked") {
  CHECK_THAT(refusal("[strategy.losing]\neverywhere = false\n[strategy.tensor_parallel]\nsize = 2\n", 2),
             Contains("left 3 trainable records without a gradient on rank 0, so"));
}

TEST_CASE("a weight that only one stage has and whose gradient is lost there is named on every rank") {
  const auto text = refusal("[strategy.losing]\n" + testing::stages_table("two"), 2);
  CHECK_THAT(text, Contains("without a gradient on rank 0, so training would never change"));
}

}  // namespace gradient_check_test
