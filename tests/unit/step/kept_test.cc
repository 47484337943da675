// What a unit decides in forward stands when it is run again, and what its experts computed is told once.
#include <ATen/ATen.h>
#include <capstan_catch.h>
#include "step/unit_runner.h"

namespace kept_test {

using namespace capstan;

namespace {

// y = x · (number of the decision); decides once a forward where it is let.
class Deciding : public nn::Unit {
 public:
  Deciding() : Unit("deciding"), weight_(add_record("weight", {1}, layout::Init::ones(), false)) {
    weight_->bind(at::ones({1}, at::kDouble).requires_grad_(true));
  }
  nn::Hidden forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache*) override {
    ++runs;
    const auto decide = [this] { return ++decisions; };
    const auto decision = batch.kept ? batch.kept->once<int>(this, decide) : decide();
    if (!hidden.states.defined()) hidden.states = at::ones({2}, at::kDouble);
    hidden.states = hidden.states * weight_->value() * static_cast<double>(decision);
    hidden.expert_tokens.push_back(at::full({3}, static_cast<double>(decision), at::kDouble));
    return hidden;
  }
  at::Tensor gradient() const { return weight_->value().grad(); }

  int runs = 0;
  int decisions = 0;

 private:
  nn::WeightPtr weight_;
};

class Sum : public nn::Unit {
 public:
  Sum() : Unit("sum") {}
  nn::Hidden forward(nn::Hidden hidden, const nn::Batch&, nn::KVCache*) override {
    hidden.states = hidden.states.sum();
    return hidden;
  }
};

}  // namespace

TEST_CASE("a recomputed unit goes by what its forward decided, again in each forward") {
  for (const bool recompute : {false, true}) {
    INFO("recompute " << recompute);
    Deciding first;
    Deciding second;
    Sum sum;
    step::UnitRunner runner({&first, &second, &sum});
    runner.set_recompute(0, recompute);
    runner.set_recompute(1, recompute);
    for (int micro_step = 1; micro_step <= 2; ++micro_step) {
      const auto out = runner.forward({});
      REQUIRE(out.expert_tokens.size() == 2);
      CHECK(out.expert_tokens[1][0].item<double>() == micro_step);
      CHECK(out.states.item<double>() == 2.0 * micro_step * micro_step);
      runner.backward(out.states, at::ones({}, at::kDouble));
      CHECK(first.decisions == micro_step);
      CHECK(second.decisions == micro_step);
      CHECK(first.runs == micro_step * (recompute ? 2 : 1));
    }
    CHECK(first.gradient().item<double>() == 2.0 * (1 + 4));  // both micro-steps
    CHECK(second.gradient().item<double>() == 2.0 * (1 + 4));
  }
}

}  // namespace kept_test
