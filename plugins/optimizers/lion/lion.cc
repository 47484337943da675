// Lion (Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms"): each parameter moves by the learning rate
// in the direction of a sign. It keeps one state where AdamW keeps two.
#include <ATen/ATen.h>
#include <capstan/optimizer.h>

#include <string>
#include <utility>
#include <vector>

namespace {

using namespace capstan;

struct LionOptions {
  std::vector<double> betas{0.9, 0.99};
  static void describe(config::OptionTable<LionOptions>& t) {
    t.add("betas", &LionOptions::betas)
        .doc("the momentum's share of what the sign is taken of, and of the next momentum; each in [0, 1)");
  }
};

class Lion : public optimizer::Rule {
 public:
  explicit Lion(config::Options<LionOptions> options) : options_(std::move(options)) {
    const auto& betas = options_->betas;
    if (betas.size() == 2 && betas[0] >= 0 && betas[0] < 1 && betas[1] >= 0 && betas[1] < 1) return;
    throw Error(options_.name(&LionOptions::betas) + " is " + config::value_text(betas),
                "give two numbers in [0, 1), such as [0.9, 0.99]", options_.where(&LionOptions::betas));
  }
  std::vector<optimizer::StateSpec> states(const layout::Param& /*record*/) const override { return {{"momentum"}}; }
  void apply(std::vector<optimizer::Slice>& slices, const optimizer::Update& update) override {
    const auto made = 1 - update.skip;  // a step that is skipped changes nothing
    const auto [now, later] = std::pair(options_->betas[0], options_->betas[1]);
    for (auto& slice : slices) {
      auto& momentum = slice.state[0];
      const auto gradient = at::nan_to_num(slice.grad / update.grad_scale, 0.0, 0.0, 0.0);
      const auto direction = (now * momentum + (1 - now) * gradient).sign();
      slice.master.sub_((direction + slice.weight_decay * slice.master) * slice.lr * made);
      momentum.add_((gradient - momentum) * (1 - later) * made);
    }
  }

 private:
  config::Options<LionOptions> options_;
};

}  // namespace

CAPSTAN_OPTIMIZER("lion", "1.0", "Lion: steps of one size, by the sign of a momentum", Lion, LionOptions)
