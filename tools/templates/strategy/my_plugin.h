#pragma once
#include <capstan/strategy.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace my_plugin_plugin {

/// The options of [strategy.my_plugin]. Their defaults are here; describe() declares the rest, once.
struct MyPluginOptions {
  std::vector<std::string> units;

  static void describe(capstan::config::OptionTable<MyPluginOptions>& t);
};

/// An example to replace: trains a part of the model only. The parameters of the units that `units` names keep their
/// values; everything else of the run stays as it is.
class MyPlugin final : public capstan::strategy::Strategy {
 public:
  explicit MyPlugin(capstan::config::Options<MyPluginOptions> options) : options_(std::move(options)) {}

  /// Faults that the configuration by itself shows; `capstan check` lists them with file and line.
  void check(const capstan::strategy::Facts& facts, capstan::Diagnostics& diagnostics) const override;
  /// Sees the model's units before anything is allocated.
  void structure(std::vector<std::unique_ptr<capstan::nn::Unit>>& units) override;

 private:
  capstan::config::Options<MyPluginOptions> options_;
};

}  // namespace my_plugin_plugin
