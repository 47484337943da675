#pragma once
#include <capstan/optimizer.h>

#include <utility>
#include <vector>

namespace my_plugin_plugin {

/// The options that [optimizer] has for this plugin. Their defaults are here; describe() declares the rest, once.
struct MyPluginOptions {
  double momentum = 0.9;

  static void describe(capstan::config::OptionTable<MyPluginOptions>& t);
};

/// An example to replace: gradient descent with momentum and decoupled weight decay. It sees slices of parameters with
/// their gradients and states; which rank holds them, and whether in host memory, is the host's business.
class MyPlugin final : public capstan::optimizer::Rule {
 public:
  explicit MyPlugin(capstan::config::Options<MyPluginOptions> options) : options_(std::move(options)) {}

  /// One tensor of the parameters' size and dtype; the host allocates it and saves it in checkpoints.
  std::vector<capstan::optimizer::StateSpec> states(const capstan::layout::Param& record) const override;
  /// Updates all slices in place, and waits for no number from the device.
  void apply(std::vector<capstan::optimizer::Slice>& slices, const capstan::optimizer::Update& update) override;

 private:
  capstan::config::Options<MyPluginOptions> options_;
};

}  // namespace my_plugin_plugin
