#include "my_plugin.h"

#include <ATen/ATen.h>

namespace my_plugin_plugin {

void MyPluginOptions::describe(capstan::config::OptionTable<MyPluginOptions>& t) {
  t.add("momentum", &MyPluginOptions::momentum).min(0).max(1).doc("share of the step before that is kept");
}

std::vector<capstan::optimizer::StateSpec> MyPlugin::states(const capstan::layout::Param& /*record*/) const {
  return {{"velocity"}};
}

void MyPlugin::apply(std::vector<capstan::optimizer::Slice>& slices, const capstan::optimizer::Update& update) {
  const auto made = 1 - update.skip;  // 0 where a gradient was not finite: then nothing may change
  for (auto& slice : slices) {
    auto& velocity = slice.state[0];
    const auto gradient = at::nan_to_num(slice.grad / update.grad_scale, 0.0, 0.0, 0.0);
    velocity.add_((options_->momentum * velocity + gradient - velocity) * made);
    slice.master.sub_((velocity + slice.weight_decay * slice.master) * slice.lr * made);
  }
}

}  // namespace my_plugin_plugin

CAPSTAN_OPTIMIZER("my_plugin", "0.1.0", "gradient descent with momentum", my_plugin_plugin::MyPlugin,
                  my_plugin_plugin::MyPluginOptions)
