#include "my_plugin.h"

#include <cstdio>

namespace my_plugin_plugin {

void MyPluginOptions::describe(capstan::config::OptionTable<MyPluginOptions>& t) {
  t.add("keep", &MyPluginOptions::keep).min(0).max(0.9999).doc("weight of the mean so far in the new one");
}

void MyPlugin::run_started(const capstan::monitor::RunStarted& run) { prints_ = run.rank == 0; }

capstan::monitor::Values MyPlugin::step_ended(const capstan::monitor::StepEnded& step) {
  mean_ = started_ ? options_.keep * mean_ + (1 - options_.keep) * step.loss : step.loss;
  started_ = true;
  return {{"my_plugin/mean_loss", mean_}};
}

void MyPlugin::run_ended(const capstan::monitor::RunEnded& run) {
  if (prints_) std::printf("my_plugin: mean loss %.4f after %lld steps\n", mean_, static_cast<long long>(run.steps));
}

}  // namespace my_plugin_plugin

CAPSTAN_MONITOR("my_plugin", "0.1.0", "an exponential mean of the loss", my_plugin_plugin::MyPlugin,
                my_plugin_plugin::MyPluginOptions)
