// A backward in two parts: which gradients come in which, and what hooks are told.
#include <capstan/ops/linear.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include <map>
#include <string>
#include <vector>

#include "step/unit_runner.h"
#include "strategy/tiny_units.h"

namespace split_backward_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

/// x + tanh(x) W^T + b, by the operators' own product.
class TinyProduct : public TinyUnit {
 public:
  explicit TinyProduct(const std::string& name)
      : TinyUnit(name),
        weight_(add(tiny_weight(name + ".weight", {5, 5}, true))),
        bias_(add(tiny_weight(name + ".bias", {5}, true))) {}

 private:
  nn::Hidden compute(nn::Hidden hidden, const nn::Batch&) override {
    hidden.states = hidden.states + ops::linear(at::tanh(hidden.states), weight_->value(), bias_->value());
    return hidden;
  }
  nn::WeightPtr weight_;
  nn::WeightPtr bias_;
};

TinyChain chain_of_products() {
  TinyChain chain;
  chain.push_back(std::make_unique<TinyTable>(tiny_weight("table", {7, 5}, true), false));
  for (int i = 1; i < 3; ++i) chain.push_back(std::make_unique<TinyProduct>("product" + std::to_string(i)));
  chain.push_back(std::make_unique<TinyHead>(tiny_weight("head", {6, 5}, true)));
  bind_leaves(chain);
  return chain;
}

/// Notes each backward call, and which gradients of the first product are there: "w" its weight's, "b" its bias's.
class Noting : public strategy::UnitHooks {
 public:
  Noting(std::vector<std::string>& calls, const nn::Unit& unit, const nn::Unit& watched)
      : calls_(calls), unit_(unit), watched_(watched) {}
  void before_backward() override { note("before"); }
  void after_backward() override { note("after"); }
  void after_weight_gradients() override { note("weights of"); }
  void end_backward() override { note("end"); }

 private:
  void note(const std::string& what) {
    auto call = what + " " + unit_.name() + ":";
    if (watched_.weights()[0]->value().grad().defined()) call += " w";
    if (watched_.weights()[1]->value().grad().defined()) call += " b";
    calls_.push_back(call);
  }
  std::vector<std::string>& calls_;
  const nn::Unit& unit_;
  const nn::Unit& watched_;
};

using Calls = std::vector<std::string>;

void start(step::MicroContext& context, const at::Tensor& seed) {
  context.roots = {context.out.states};
  context.gradients = {seed};
}

}  // namespace

TEST_CASE("gradients of products' weights come in the second part, unit by unit, and hooks are told") {
  const auto chain = chain_of_products();
  torch::autograd::backward({plain_loss(chain, tiny_batch(0))}, {at::ones({}, at::kDouble)});
  const auto expected = take_gradients(chain);
  step::UnitRunner runner(pointers(chain));
  Calls calls;
  for (std::size_t i = 0; i < chain.size(); ++i)
    runner.add_hooks(i, std::make_unique<Noting>(calls, *chain[i], *chain[1]));
  step::MicroContext context{&runner.stages().stages.front(), tiny_batch(0)};
  runner.forward(context);
  start(context, at::ones({}, at::kDouble));
  runner.backward_input(context);
  CHECK(std::exchange(calls, {}) == Calls{"before head:", "after head:", "before product2:", "after product2:",
                                          "before product1:", "after product1: b", "before table: b",
                                          "after table: b"});
  context.in = context.out = {};
  runner.backward_weight(context);
  CHECK(calls == Calls{"weights of head:", "weights of product2:", "weights of product1: w b", "weights of table: w b",
                       "end table: w b", "end product1: w b", "end product2: w b", "end head: w b"});
  CHECK(bit_equal(take_gradients(chain), expected));
}

TEST_CASE("a unit that is run again leaves its gradients to the second part, not its products") {
  const auto chain = chain_of_products();
  torch::autograd::backward({plain_loss(chain, tiny_batch(0))}, {at::ones({}, at::kDouble)});
  const auto expected = take_gradients(chain);
  step::UnitRunner runner(pointers(chain));
  runner.set_recompute(1, true);
  Calls calls;
  runner.add_hooks(1, std::make_unique<Noting>(calls, *chain[1], *chain[1]));
  step::MicroContext context{&runner.stages().stages.front(), tiny_batch(0)};
  runner.forward(context);
  start(context, at::ones({}, at::kDouble));
  runner.backward_input(context);
  CHECK(calls.back() == "after product1: w b");
  CHECK_FALSE(chain[1]->weights()[0]->value().grad().defined());
  runner.backward_weight(context);
  CHECK(bit_equal(take_gradients(chain), expected));
}

TEST_CASE("each micro-batch's gradients come by themselves where both second parts come after both first ones") {
  // In 16 bits a sum of two gradients is another one than that of each, added up in 32.
  const auto chain = chain_of_products();
  for (const auto& unit : chain) {
    for (const auto& weight : unit->weights())
      weight->bind(weight->value().detach().to(at::kBFloat16).set_requires_grad(true));
  }
  const bool again = GENERATE(false, true);
  INFO("product1 is run again: " << again);
  step::UnitRunner runner(pointers(chain));
  runner.set_recompute(1, again);
  const auto& stage = runner.stages().stages.front();
  const auto seed = at::ones({}, at::kBFloat16);
  step::MicroContext contexts[2] = {{&stage, tiny_batch(0)}, {&stage, tiny_batch(1)}};
  std::vector<std::map<std::string, at::Tensor>> expected;
  for (auto& context : contexts) {
    runner.forward(context);
    start(context, seed);
    runner.backward(context);
    expected.push_back(take_gradients(chain));
  }
  for (auto& context : contexts) runner.forward(context);
  for (auto& context : contexts) {
    start(context, seed);
    runner.backward_input(context);
  }
  for (int i = 0; i < 2; ++i) {
    INFO("micro-batch " << i);
    runner.backward_weight(contexts[i]);
    CHECK(bit_equal(take_gradients(chain), expected[static_cast<std::size_t>(i)]));
  }
}

}  // namespace split_backward_test
