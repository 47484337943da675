// Multiplies what a layer computes: fills a layer's port.
#include <ATen/ATen.h>
#include <capstan/strategy.h>

namespace {

using namespace capstan;

struct OutputScaleOptions {
  std::string layer;
  double factor = 1.0;
  static void describe(config::OptionTable<OutputScaleOptions>& t) {
    t.add("layer", &OutputScaleOptions::layer).required().doc("end of the layers' names");
    t.add("factor", &OutputScaleOptions::factor).doc("what their products are multiplied by");
  }
};

class OutputScale : public strategy::Strategy {
 public:
  explicit OutputScale(config::Options<OutputScaleOptions> options) : options_(std::move(options)) {}

  void place(nn::Unit& unit, const strategy::Placement&) override {
    for (auto* linear : unit.all<nn::Linear>()) {
      if (!linear->name().ends_with(options_->layer)) continue;
      linear->after.must_act();  // a model that does not call the layer's forward would compute something else
      linear->after.fill("output_scale", [factor = options_->factor](const at::Tensor& y) { return y * factor; });
    }
  }

 private:
  config::Options<OutputScaleOptions> options_;
};

}  // namespace

CAPSTAN_STRATEGY("output_scale", "1.0", "multiplies the outputs of layers", OutputScale, OutputScaleOptions)
