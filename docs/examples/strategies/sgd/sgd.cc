// Stochastic gradient descent with momentum: another optimizer rule than core's.
#include <ATen/ATen.h>
#include <capstan/strategy.h>

namespace {

using namespace capstan;

struct SgdOptions {
  double momentum = 0.0;
  static void describe(config::OptionTable<SgdOptions>& t) {
    t.add("momentum", &SgdOptions::momentum).min(0).max(1).doc("share of the step before that is kept");
  }
};

class Rule : public strategy::OptimizerRule {
 public:
  explicit Rule(double momentum) : momentum_(momentum) {}
  std::size_t states() const override { return 1; }
  std::string state_name(std::size_t) const override { return "velocity"; }
  void apply(std::vector<strategy::Slice>& slices, const strategy::Update& update) override {
    const auto made = 1 - update.skip;  // a step that is skipped changes nothing
    for (auto& slice : slices) {
      auto& velocity = slice.state[0];
      const auto gradient = at::nan_to_num(slice.grad, 0.0, 0.0, 0.0) / update.grad_scale;
      velocity.add_(made * (momentum_ * velocity + gradient - velocity));
      slice.master.sub_(made * update.lr * velocity);
    }
  }

 private:
  double momentum_;
};

class Sgd : public strategy::Strategy {
 public:
  explicit Sgd(config::Options<SgdOptions> options) : options_(std::move(options)) {}
  void claim(strategy::Claims& claims) const override { claims.exclusive(strategy::optimizer_rule_point); }
  std::unique_ptr<strategy::OptimizerRule> optimizer_rule(const strategy::AdamWOptions&) override {
    return std::make_unique<Rule>(options_->momentum);
  }

 private:
  config::Options<SgdOptions> options_;
};

}  // namespace

CAPSTAN_STRATEGY("sgd", "1.0", "stochastic gradient descent with momentum", Sgd, SgdOptions)
