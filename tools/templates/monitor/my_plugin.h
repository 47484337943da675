#pragma once
#include <capstan/monitor.h>

#include <cstdint>

namespace my_plugin_plugin {

/// The options of [monitor.my_plugin]. Their defaults are here; describe() declares the rest, once.
struct MyPluginOptions {
  double keep = 0.9;

  static void describe(capstan::config::OptionTable<MyPluginOptions>& t);
};

/// An example to replace: an exponential mean of the loss, which shows a trend where single steps jump.
class MyPlugin final : public capstan::monitor::Monitor {
 public:
  explicit MyPlugin(const capstan::config::Options<MyPluginOptions>& options) : options_(*options) {}

  void run_started(const capstan::monitor::RunStarted& run) override;
  /// The named numbers appear in metrics.jsonl, averaged over the ranks.
  capstan::monitor::Values step_ended(const capstan::monitor::StepEnded& step) override;
  /// A monitor may print, on rank 0.
  void run_ended(const capstan::monitor::RunEnded& run) override;

  /// mean = keep * mean + (1 - keep) * loss, started with the first loss.
  double mean() const { return mean_; }

 private:
  MyPluginOptions options_;
  bool prints_ = false;
  bool started_ = false;
  double mean_ = 0;
};

}  // namespace my_plugin_plugin
