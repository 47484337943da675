#pragma once
#include <capstan/objective.h>

#include <utility>
#include <vector>

namespace my_plugin_plugin {

/// The options that [objective] has for this plugin. Their defaults are here; describe() declares the rest, once.
struct MyPluginOptions {
  double power = 1;

  static void describe(capstan::config::OptionTable<MyPluginOptions>& t);
};

/// An example to replace: the cross entropy of the next token, where short and long samples count alike. It sees the
/// sums over one micro-batch; how a step is divided into micro-batches, rows and ranks is the host's business.
class MyPlugin final : public capstan::objective::Objective {
 public:
  explicit MyPlugin(capstan::config::Options<MyPluginOptions> options) : options_(std::move(options)) {}

  /// One forward, which gives log-probabilities; one sum and one figure, both divided by the number of sequences.
  capstan::objective::Plan plan() const override;
  /// What the micro-batch adds to that number.
  std::vector<double> counts(const capstan::data::HostBatch& batch) const override;
  /// The micro-batch's sums, without waiting for a number from the device.
  capstan::objective::Sums sums(const std::vector<at::Tensor>& outputs, const capstan::nn::Batch& batch) const override;

 private:
  capstan::config::Options<MyPluginOptions> options_;
};

}  // namespace my_plugin_plugin
