// AdamW (Loshchilov & Hutter 2019), which [optimizer] means where it names no plugin: the library's rule with its
// options.
#include <capstan/adamw/adamw.h>
#include <capstan/optimizer.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace capstan;

struct AdamWOptions {
  std::vector<double> betas{0.9, 0.999};
  double eps = 1e-8;
  static void describe(config::OptionTable<AdamWOptions>& t) {
    t.add("betas", &AdamWOptions::betas).doc("the two decay rates, each in [0, 1)");
    t.add("eps", &AdamWOptions::eps).above(0).doc("added to the root of the second average");
  }
};

std::unique_ptr<optimizer::Rule> rule_of(const config::Options<AdamWOptions>& options) {
  const auto& betas = options->betas;
  if (betas.size() != 2 || betas[0] < 0 || betas[0] >= 1 || betas[1] < 0 || betas[1] >= 1) {
    throw Error(options.name(&AdamWOptions::betas) + " is " + config::value_text(betas),
                "give two numbers in [0, 1), such as [0.9, 0.999]", options.where(&AdamWOptions::betas));
  }
  return optimizer::adamw({{betas[0], betas[1]}, options->eps});
}

class AdamW : public optimizer::Rule {
 public:
  explicit AdamW(const config::Options<AdamWOptions>& options) : rule_(rule_of(options)) {}
  std::vector<optimizer::StateSpec> states(const layout::Param& record) const override { return rule_->states(record); }
  bool is_fused() const override { return true; }
  void apply(std::vector<optimizer::Slice>& slices, const optimizer::Update& update) override {
    rule_->apply(slices, update);
  }

 private:
  std::unique_ptr<optimizer::Rule> rule_;
};

}  // namespace

CAPSTAN_OPTIMIZER("adamw", "1.0", "AdamW: steps by the averages of gradients and of their squares", AdamW, AdamWOptions)
