#include "my_plugin.h"

#include <capstan/base/text.h>

namespace my_plugin_plugin {

void MyPluginOptions::describe(capstan::config::OptionTable<MyPluginOptions>& t) {
  t.add("units", &MyPluginOptions::units).required().doc("units of the model that are not trained");
}

void MyPlugin::check(const capstan::strategy::Facts& facts, capstan::Diagnostics& diagnostics) const {
  const auto named = static_cast<std::int64_t>(options_->units.size());
  const auto all = facts.model.num_layers + 2;  // the blocks, the embedding before and the head after them
  if (named >= all) {
    diagnostics.add(options_.where(&MyPluginOptions::units),
                    capstan::cat(options_.name(&MyPluginOptions::units), " names ", named, " units of a model with ",
                                 all, ": nothing would be trained"),
                    "name fewer units");
  }
}

void MyPlugin::structure(std::vector<std::unique_ptr<capstan::nn::Unit>>& units) {
  std::vector<std::string> names;
  for (const auto& unit : units) names.push_back(unit->name());
  for (const auto& wanted : options_->units) {
    bool found = false;
    for (const auto& unit : units) {
      if (unit->name() != wanted) continue;
      found = true;
      for (const auto& weight : unit->weights()) {
        for (auto& record : weight->records()) record.trainable = false;
      }
    }
    if (!found) {
      throw capstan::Error(capstan::cat("the model has no unit '", wanted, "'"), capstan::suggestion(wanted, names),
                           options_.where(&MyPluginOptions::units));
    }
  }
}

}  // namespace my_plugin_plugin

CAPSTAN_STRATEGY("my_plugin", "0.1.0", "trains a part of the model only", my_plugin_plugin::MyPlugin,
                 my_plugin_plugin::MyPluginOptions)
