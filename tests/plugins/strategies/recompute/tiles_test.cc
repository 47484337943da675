// Feed-forwards by tiles of the sequence learn what those of the whole sequence do.
#include "plugins/strategies/recompute/tiles.h"

#include <ATen/ATen.h>
#include <capstan/testing.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include <map>
#include <string>

#include "support/compositions.h"

namespace tiles_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

// A micro-batch of one rank has 8 rows of up to 15 columns: tiles of 1, 2 and 5 columns.
const std::string by_1 = "[strategy.recompute]\ntile_tokens = 8\n", by_2 = "[strategy.recompute]\ntile_tokens = 17\n",
                  by_5 = "[strategy.recompute]\ntile_tokens = 40\n";
const std::string regions = "regions = [\"attention\"]\n", offload = "offload = 1.0\n";

TrainResult run(const std::string& config, int world) {
  return testing::train({.world = world, .config = config, .overrides = {same_micro_steps}, .steps = 3});
}

const TrainResult& alone(const std::string& config) {
  static std::map<std::string, TrainResult> runs;
  if (!runs.contains(config)) runs[config] = run(config, 1);
  return runs.at(config);
}

// What the first step gave, before any update.
TrainResult first_step(TrainResult run) {
  run.losses.resize(1);
  run.norms.resize(1);
  run.weights.clear();
  run.states.clear();
  return run;
}

// Sums in float64 in another order: 1e-12 in a step; AdamW amplifies it over three, to what the project promises.
void check(const std::string& same, const std::string& split, int world = 1) {
  INFO(same << split << world << " ranks");
  const auto split_run = run(same + split, world);
  CHECK(differences(first_step(split_run), first_step(alone(same)), 1e-12) == "");
  CHECK(differences(split_run, alone(same), 1e-10) == "");
}

const std::string tp = "[strategy.tensor_parallel]\nsize = ", sp = "sequence_parallel = true\n";

}  // namespace

TEST_CASE("float64: every dense family, by tiles of any size, with other parts recomputed too", "[matrix][train]") {
  for (const auto& family : {families()[0], families()[1], families()[2], families()[4]}) {
    const auto model = family_config(family);
    check(model, by_1);
    check(model, by_2 + regions);
    check(model, by_5 + "every = 2\n" + offload);
  }
}

TEST_CASE("float64: tiles of ranks that split the model, and of those that share columns", "[matrix][train]") {
  const auto model = family_config(dense());
  check(model, by_2 + tp + "2\n", 2);
  check(model, by_1 + tp + "2\n" + sp, 2);
  check(model, by_2 + regions + tp + "4\n" + sp + "[strategy.fsdp]\n", 8);
  check(model, by_1 + tp + "2\n" + sp + "[strategy.context_parallel]\nsize = 2\n[data]\npacking = true\n", 4);
  check(model + "[data]\nlength = 4\n", by_1 + tp + "4\n" + sp, 4);  // of three columns the last rank has none
}

TEST_CASE("float64: tiles with adapters, whose dropout is each token's own", "[matrix][train]") {
  const auto model = family_config(dense()) + adapters_of(dense());
  check(model, by_2 + regions + offload);
  check(model, by_2 + "[data]\npacking = true\n");
  check(model, by_1 + tp + "2\n" + sp + "[strategy.fsdp]\n", 4);
  check(model, by_1 + "[strategy.context_parallel]\nsize = 2\n" + tp + "2\n" + sp, 4);
}

TEST_CASE("float64: tiles of stages whose backward runs in two parts", "[matrix][train]") {
  check(family_config(dense()), by_2 + "[strategy.pipeline_parallel]\nsize = 2\nschedule = \"zero_bubble\"\n", 2);
}

TEST_CASE("float64: what waits in host memory is each micro-batch's own", "[matrix][train]") {
  const auto model = family_config(dense());
  for (const std::string schedule : {"1f1b", "zero_bubble"}) {
    const auto stages = "[strategy.pipeline_parallel]\nsize = 2\nschedule = \"" + schedule + "\"\n";
    check(model, "[strategy.recompute]\n" + offload + stages, 2);
    check(model, by_2 + regions + offload + stages, 2);
  }
}

TEST_CASE("float64: a model's dense blocks run by tiles, its experts do not", "[matrix][train]") {
  const auto& family = families()[5];
  REQUIRE(family.plugin == "qwen3");
  CHECK_THROWS_WITH(run(family_config(family) + by_2, 1), Contains("strategy.recompute.tile_tokens is set, but no "
                                                                   "unit of this model has a dense feed-forward"));
}

namespace {

/// A unit with one feed-forward. A test sees each tile.
class Feeding : public nn::Unit {
 public:
  explicit Feeding(at::ScalarType dtype)
      : Unit("feeding"), mlp_(*this, {}, {weight("up", {2, 6, 4}), nullptr}, {weight("down", {4, 6}), nullptr}) {
    for (const auto& one : weights()) {
      const auto& shape = one->records().front().shape;
      one->bind(at::randn(shape, dtype).requires_grad_(true));
    }
  }
  nn::Hidden forward(nn::Hidden hidden, const nn::Batch&, nn::KVCache*) override {
    hidden.states = region_(hidden.states, [this](const at::Tensor& x) { return compute(x); });
    return hidden;
  }
  at::Tensor compute(const at::Tensor& x) {
    tiles.push_back(x.size(1));
    columns.push_back(batch().tokens.defined() ? batch().tokens.size(1) : -1);
    return mlp_.forward(x);
  }
  nn::Region& region() { return region_; }
  std::vector<std::int64_t> tiles, columns;

 private:
  static nn::WeightPtr weight(const std::string& name, layout::Shape shape) {
    return std::make_shared<nn::Weight>(
        std::vector<layout::Param>{nn::record(name, std::move(shape), layout::Init::normal(1), true)});
  }
  nn::Mlp mlp_;
  nn::Region region_{*this, "mlp"};
};

nn::Batch batch_of(std::int64_t columns) {
  nn::Batch batch;
  batch.tokens = at::zeros({2, columns}, at::kLong);
  batch.positions = at::arange(columns).expand({2, columns});
  batch.sample_ids = at::arange(2);
  return batch;
}

}  // namespace

TEST_CASE("a tile runs once in forward and once in backward, with its columns of the batch") {
  Feeding unit(at::kDouble);
  unit.region().around.fill("test", recompute::Tiles(unit, 6, {}, {}));
  unit.set_batch(batch_of(7));
  const auto x = at::randn({2, 7, 4}, at::kDouble).requires_grad_(true);
  const auto y = unit.forward({x, {}, {}}, unit.batch(), nullptr).states;
  CHECK(unit.tiles == std::vector<std::int64_t>{3, 3, 1});
  torch::autograd::backward({y}, {at::ones_like(y)});
  CHECK(unit.tiles == std::vector<std::int64_t>{3, 3, 1, 3, 3, 1});
  CHECK(unit.columns == unit.tiles);
  CHECK(unit.batch().tokens.size(1) == 7);
  const auto gradient = x.grad().clone();
  x.mutable_grad().reset();
  const auto whole = unit.compute(x);
  CHECK(at::allclose(y, whole, 1e-14, 1e-14));
  torch::autograd::backward({whole}, {at::ones_like(whole)});
  CHECK(at::allclose(gradient, x.grad(), 1e-13, 1e-13));
}

TEST_CASE("gradients of weights in 16 bits are summed over tiles in fp32, and added to what the leaf has") {
  for (const bool has_some : {false, true}) {
    Feeding unit(at::kBFloat16);
    std::vector<at::Tensor> sums;
    for (const auto& weight : unit.weights()) {
      sums.push_back(at::zeros(weight->value().sizes(), at::kFloat));
      if (has_some) weight->value().mutable_grad() = at::ones_like(weight->value());
    }
    const auto x = at::randn({2, 7, 4}, at::kBFloat16), seed = at::randn_like(x);
    std::vector<at::Tensor> before;
    for (std::int64_t begin = 0; begin < 7; ++begin) {
      const auto part = [&](const at::Tensor& all) { return all.narrow(1, begin, 1).contiguous(); };
      const auto y = unit.compute(part(x));
      std::vector<at::Tensor> leaves;
      for (const auto& weight : unit.weights()) leaves.push_back(weight->value());
      const auto gradients = torch::autograd::grad({y}, leaves, {part(seed)});
      for (std::size_t i = 0; i < leaves.size(); ++i) sums[i].add_(gradients[i]);
    }
    unit.region().around.fill("test", recompute::Tiles(unit, 2, {}, {}));
    unit.set_batch(batch_of(7));
    const auto input = x.clone().requires_grad_(true);
    const auto y = unit.forward({input, {}, {}}, unit.batch(), nullptr).states;
    torch::autograd::backward({y}, {seed});
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const auto wanted = has_some ? sums[i] + 1 : sums[i];
      CHECK(at::equal(unit.weights()[i]->value().grad(), wanted.to(at::kBFloat16)));
    }
  }
}

}  // namespace tiles_test
