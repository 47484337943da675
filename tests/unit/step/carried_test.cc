// What goes from unit to unit beside the states (nn::Hidden::carried) has a gradient only where it needs one.
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include "step/unit_runner.h"
#include "strategy/tiny_units.h"

namespace carried_test {

using namespace capstan;
using namespace capstan::testing;
using step::UnitRunner;

namespace {

/// The first one adds what has no gradient and what has one; those after it use both.
class Carrier : public TinyUnit {
 public:
  explicit Carrier(const std::string& name) : TinyUnit(name), weight_(add(tiny_weight(name, {5}, true))) {}
  std::vector<bool> seen;  // what has a gradient of what came

 private:
  nn::Hidden compute(nn::Hidden hidden, const nn::Batch&) override {
    seen.clear();
    for (const auto& carried : hidden.carried) seen.push_back(carried.requires_grad());
    if (hidden.carried.empty()) hidden.carried = {hidden.states.detach().cos(), hidden.states * weight_->value()};
    hidden.states = hidden.states + hidden.carried[0] * hidden.carried[1] * weight_->value();
    return hidden;
  }
  nn::WeightPtr weight_;
};

TinyChain make_chain() {
  TinyChain chain;
  chain.push_back(std::make_unique<TinyTable>(tiny_weight("table", {7, 5}, true), false));
  for (const auto* name : {"giver", "reader", "last"}) chain.push_back(std::make_unique<Carrier>(name));
  chain.push_back(std::make_unique<TinyHead>(tiny_weight("head", {6, 5}, true)));
  bind_leaves(chain);
  return chain;
}

}  // namespace

TEST_CASE("what units carry has a gradient where it had one, recomputed or not, and the one that it has without both") {
  const auto plain = make_chain();
  torch::autograd::backward({plain_loss(plain, tiny_batch(0))}, {at::ones({}, at::kDouble)});
  const auto expected = take_gradients(plain);
  for (unsigned subset = 0; subset < 32; ++subset) {
    INFO("recomputed: " << subset);
    const auto chain = make_chain();
    UnitRunner runner(pointers(chain));
    for (std::size_t i = 0; i < chain.size(); ++i) runner.set_recompute(i, (subset >> i & 1U) != 0);
    const auto loss = runner.forward(tiny_batch(0)).states;
    const bool is_made_again = (subset >> 1U & 1U) != 0;  // all that a recomputed unit makes has a gradient
    for (const std::size_t reader : {2, 3})
      CHECK(dynamic_cast<Carrier&>(*chain[reader]).seen == std::vector<bool>{is_made_again, true});
    runner.backward(loss, at::ones({}, at::kDouble));
    CHECK(bit_equal(take_gradients(chain), expected));
  }
}

}  // namespace carried_test
