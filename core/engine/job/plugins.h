#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/command/command.h>
#include <capstan/command/run_extension.h>
#include <capstan/data/source.h>
#include <capstan/monitor/monitor.h>
#include <capstan/nn/model.h>
#include <capstan/objective/objective.h>
#include <capstan/optimizer/rule.h>
#include <capstan/strategy/strategy.h>
#include <capstan/tokenizer/opener.h>
#include "plugin/guard.h"
#include "strategy/objective.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <capstan/plugin/host.h>
#include "config/plugin_table.h"
#include "config/to_toml.h"
#include "data/shared.h"
#include "hf/model_folder.h"
#include "setup/configuration.h"

CAPSTAN_BEGIN_NAMESPACE
namespace job {

/// A plugin's object with what messages need to know of it.
template <class Interface>
struct Made {
  std::string name;
  std::string where;  ///< what in the configuration names it
  std::string table;  ///< "strategy.fsdp"
  std::string file;   ///< the shared library
  std::shared_ptr<Interface> object;
  std::vector<config::Entry> host;                           ///< the host's own options of its table
  std::vector<config::Resolved> options;                     ///< the plugin's
  std::function<std::shared_ptr<Interface>()> make_another;  ///< with the same options; while the plugin host lives
  std::string note = {};                                     ///< for people: what of the model's folder is not known
};

/// Where the user set an option of a plugin, else what names the plugin.
template <class Interface>
std::string where_of(const Made<Interface>& made, const std::string& key) {
  for (const auto& option : made.options) {
    if (option.spec.key == key && option.origin.layer != config::Origin::Layer::default_value)
      return option.origin.text();
  }
  return made.where;
}

using Strategies = std::vector<Made<strategy::Strategy>>;

/// Calls one phase of every strategy with its name around errors.
template <class Phase>
void each_strategy(const Strategies& strategies, const std::string& name, const Phase& phase) {
  for (const auto& made : strategies) plugin::guard(made.name, name, [&] { phase(*made.object); });
}

/// [[optimizer.groups]].
struct OptimizerGroupTable {
  std::string table;  ///< "optimizer.groups.1"
  std::string where;  ///< what in the configuration says it
  config::Options<setup::OptimizerGroupOptions> options;
  std::optional<Made<optimizer::Rule>> rule;  ///< nothing: [optimizer]'s
};

/// [[data.sources]], or [data] where its training split has a share for evaluation.
struct DataSourceTable {
  std::string name;  ///< "" for [data]
  config::Options<setup::DataSourceOptions> options;
  Made<data::Data> made;
  std::shared_ptr<const data::SharedData> shared;  ///< what splits are opened by
};

/// What is known of the data besides their plugin.
struct DataParts {
  config::Options<setup::DataOptions> options;
  data::SampleForm form;                  ///< what samples consist of
  std::vector<DataSourceTable> sources;   ///< [[data.sources]], which the plugin is made of
  std::optional<DataSourceTable> shared;  ///< [data] itself, where data.eval_fraction is set and there are no sources
};

/// A preset in place of a model whose files are not there.
struct StandIn {
  std::string named;   ///< what model.path says
  std::string preset;  ///< "bloom-560m"
  std::string where;   ///< what sets model.path
};

/// The second stage: the plugins that the configuration names, made from their tables, each for itself. What is missing
/// has a fault; the stages after say what they find wrong with those that there are.
struct Plugins {
  std::optional<Made<nn::Model>> model;                ///< none only where it has a fault
  config::Options<setup::ModelOptions> model_options;  ///< model.path is the folder that was found
  nn::ModelFacts model_facts;
  std::optional<StandIn> stand_in;       ///< model.path is not set then, and model.preset is
  std::optional<Made<data::Data>> data;  ///< none where a command needs no samples
  DataParts data_parts;
  std::optional<Made<tokenizer::Opener>> tokenizer;  ///< none where data.tokenizer says which it is
  Strategies strategies;
  std::optional<Made<optimizer::Rule>> optimizer;  ///< none where it has a fault
  std::vector<OptimizerGroupTable> optimizer_groups;
  std::optional<Made<objective::Objective>> objective;   ///< none where it has a fault
  std::shared_ptr<const strategy::Objective> minimised;  ///< what it needs and gives; null where that has a fault
  std::vector<nn::PackedForm> packed_forms;              ///< how packed weights of the model's folder are recognised
  std::vector<Made<monitor::Monitor>> monitors;
  std::vector<Made<command::RunExtension>> extensions;  ///< commands that have a table, by name
};

/// A strategy that is installed, as an empty table makes it.
struct InstalledStrategy {
  std::string table;  ///< "strategy.fsdp"
  std::shared_ptr<strategy::Strategy> object;
};
/// All installed strategies, for messages that say what could do what a run's own strategies cannot.
std::vector<InstalledStrategy> installed_strategies(plugin::Host& host);

/// Which of the plugins a command needs.
enum class Needs { all, all_but_data, model_and_strategies };

Plugins load_plugins(const setup::Configuration& config, Needs needs, plugin::Host& host, Diagnostics& faults);
/// The plugin of one more model, which `table` names, as its folder's config.json has it. Nothing where it has a fault;
/// quantized weights are one.
std::optional<Made<nn::Model>> load_other_model(const config::PluginTable& table, const hf::ModelFolder& folder,
                                                plugin::Host& host, Diagnostics& faults);

}  // namespace job
CAPSTAN_END_NAMESPACE
