// Stochastic gradient descent with momentum: another optimizer than AdamW, with half of its state.
#include <ATen/ATen.h>
#include <capstan/optimizer.h>

#include <utility>
#include <vector>

namespace {

using namespace capstan;

struct SgdOptions {
  double momentum = 0.0;
  static void describe(config::OptionTable<SgdOptions>& t) {
    t.add("momentum", &SgdOptions::momentum).min(0).max(1).doc("share of the step before that is kept");
  }
};

class Sgd : public optimizer::Rule {
 public:
  explicit Sgd(config::Options<SgdOptions> options) : options_(std::move(options)) {}
  std::vector<optimizer::StateSpec> states(const layout::Param& /*record*/) const override { return {{"velocity"}}; }
  void apply(std::vector<optimizer::Slice>& slices, const optimizer::Update& update) override {
    const auto made = 1 - update.skip;  // a step that is skipped changes nothing
    for (auto& slice : slices) {
      auto& velocity = slice.state[0];
      const auto gradient = at::nan_to_num(slice.grad / update.grad_scale, 0.0, 0.0, 0.0);
      velocity.add_((options_->momentum * velocity + gradient - velocity) * made);
      slice.master.sub_((velocity + slice.weight_decay * slice.master) * slice.lr * made);
    }
  }

 private:
  config::Options<SgdOptions> options_;
};

}  // namespace

CAPSTAN_OPTIMIZER("sgd", "1.0", "stochastic gradient descent with momentum", Sgd, SgdOptions)
