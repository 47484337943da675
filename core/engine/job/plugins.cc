#include "job/plugins.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <utility>

#include "job/data_plugins.h"
#include "job/model_table.h"
#include "job/objective.h"
#include "job/plugin_loader.h"
#include "setup/collect.h"

namespace capstan::job {
namespace {

// Commands that have a table.
void load_extensions(const setup::Configuration& config, Loader& loader, Plugins& plugins, Diagnostics& faults) {
  for (const auto& section : config.document.of_commands()) {
    const config::PluginTable table{section.path, {}, true, section.origin.text(), section, {}};
    auto made = loader.make<command::Command>("command", table);
    if (!made) continue;
    auto object = std::dynamic_pointer_cast<command::RunExtension>(made->object);
    if (!object) {
      faults.add(made->file, cat("the command '", made->name, "' has a table, but is no command::RunExtension"),
                 "derive its class from command::RunExtension too (capstan/command/run_extension.h)");
      continue;
    }
    plugin::guard(made->name, "check", [&] { object->check(faults); });
    plugins.extensions.push_back({made->name, made->where, made->table, made->file, object, {}, made->options, {}});
  }
}

void load_model(const setup::Configuration& config, plugin::Host& host, Loader& loader, Plugins& plugins,
                Diagnostics& faults) {
  auto [table, start, absent] = read_model_table(config, plugins, host, faults);
  auto& options = plugins.model_options;
  if (!absent.empty() && config.request.may_lack_files) plugins.stand_in = loader.stand_in(table, options);
  if (plugins.stand_in) {
    options = with_stand_in(options.section(), *plugins.stand_in);
  } else {
    for (const auto& fault : absent.list()) faults.add(fault);
  }
  if (options->path && !start.folder) return;  // sizes are not known
  if (options->preset) start.preset = {*options->preset, options.where(&setup::ModelOptions::preset)};
  if (!table.name.empty()) plugins.model = loader.make<nn::Model>("model", table, start);
}

// [tokenizer] and data.tokenizer both say which it is.
bool settle_tokenizer(const setup::Configuration& config, const Plugins& plugins, Diagnostics& faults) {
  const auto section = config.document.section("tokenizer");
  if (section.entries.empty()) return false;
  const auto& options = plugins.data_parts.options;
  if (options->tokenizer == "auto") return true;
  faults.add(options.where(&setup::DataOptions::tokenizer),
             cat("data.tokenizer and [tokenizer] (", section.origin.text(), ") both say which tokenizer to use"),
             "keep one: data.tokenizer for a tokenizer.json, [tokenizer] for a plugin");
  return false;
}

void load_tokenizer(const setup::Configuration& config, Loader& loader, Plugins& plugins, Diagnostics& faults) {
  if (!settle_tokenizer(config, plugins, faults)) return;
  const auto table = config::chosen_plugin(config.document.section("tokenizer"), faults);
  if (!table.name.empty()) plugins.tokenizer = loader.make<tokenizer::Opener>("tokenizer", table);
}

OptimizerGroupTable load_group(config::Section section, Loader& loader, Diagnostics& faults) {
  using Options = config::Options<setup::OptimizerGroupOptions>;
  OptimizerGroupTable group{section.path, section.origin.text(), {}, {}};
  group.options = Options(config::take(section, Options::schema()), faults);
  if (!group.options->plugin) {
    std::vector<std::string> keys;
    for (const auto& spec : Options::schema()) keys.push_back(spec.key);
    config::refuse_unknown(section, {}, keys, faults);
    return group;
  }
  section.entries.push_back(*group.options.section().find("plugin"));
  const auto table = config::chosen_plugin(section, faults);
  if (!table.name.empty()) group.rule = loader.make<optimizer::Rule>("optimizer", table);
  return group;
}

// Without a plugin it is AdamW.
void load_optimizer(const setup::Configuration& config, Loader& loader, Plugins& plugins, Diagnostics& faults) {
  auto section = config.document.section("optimizer");
  (void)config::take(section, config::Options<setup::OptimizerOptions>::schema());
  for (auto& group : take_tables(section, "groups"))
    plugins.optimizer_groups.push_back(load_group(std::move(group), loader, faults));
  if (!section.find("plugin")) section.entries.push_back({"plugin", std::string("adamw"), {}});
  const auto table = config::chosen_plugin(section, faults);
  if (!table.name.empty()) plugins.optimizer = loader.make<optimizer::Rule>("optimizer", table);
}

// Without a plugin it is the cross entropy of the next token.
void load_objective(const setup::Configuration& config, Loader& loader, Plugins& plugins, Diagnostics& faults) {
  auto section = config.document.section("objective");
  if (!section.find("plugin")) section.entries.push_back({"plugin", std::string("causal_lm"), {}});
  const auto table = config::chosen_plugin(section, faults);
  if (table.name.empty()) return;
  plugins.objective = loader.make<objective::Objective>("objective", table);
  if (!plugins.objective) return;
  setup::collect(
      faults, [&] { settle_objective(plugins, faults); }, plugins.objective->where);
}

std::vector<nn::PackedForm> forms_of(const Strategies& strategies) {
  std::vector<nn::PackedForm> all;
  each_strategy(strategies, "packed_forms", [&](const strategy::Strategy& strategy) {
    for (auto& form : strategy.packed_forms()) all.push_back(std::move(form));
  });
  return all;
}

}  // namespace

std::vector<InstalledStrategy> installed_strategies(plugin::Host& host) {
  std::vector<InstalledStrategy> all;
  for (const auto& found : host.discover()) {
    if (found.kind != "strategy" || !found.registration) continue;
    const auto table = "strategy." + found.name;
    Diagnostics unset;  // options that have no default
    if (auto object = found.registration->make({table, {}, {}}, unset); object && unset.empty())
      all.push_back({table, std::static_pointer_cast<strategy::Strategy>(std::move(object))});
  }
  return all;
}

Plugins load_plugins(const setup::Configuration& config, Needs needs, plugin::Host& host, Diagnostics& faults) {
  Plugins plugins;
  // It is made first and blamed last: the model's folder may have weights that only a strategy reads.
  Diagnostics of_strategies;
  plugins.strategies = Loader(host, of_strategies).make_all<strategy::Strategy>("strategy", config.document);
  Loader loader(host, faults, forms_of(plugins.strategies));
  load_model(config, host, loader, plugins, faults);
  load_data(config, needs == Needs::all, loader, plugins, faults);
  load_tokenizer(config, loader, plugins, faults);
  load_optimizer(config, loader, plugins, faults);
  load_objective(config, loader, plugins, faults);
  plugins.packed_forms = loader.forms();
  for (const auto& fault : of_strategies.list()) faults.add(fault);
  if (needs != Needs::model_and_strategies) {
    load_extensions(config, loader, plugins, faults);
    plugins.monitors = loader.make_all<monitor::Monitor>("monitor", config.document);
  }
  if (!plugins.model) return plugins;
  const auto& model = *plugins.model;
  setup::collect(
      faults, [&] { plugin::guard(model.name, "check", [&] { model.object->check(faults); }); }, model.where);
  plugin::guard(model.name, "facts", [&] { plugins.model_facts = model.object->facts(); });
  return plugins;
}

std::optional<Made<nn::Model>> load_other_model(const config::PluginTable& table, const hf::ModelFolder& folder,
                                                plugin::Host& host, Diagnostics& faults) {
  Loader loader(host, faults);
  auto made = loader.make<nn::Model>("model", table, {{}, folder});
  if (!loader.forms().empty())
    faults.add(folder.where, cat(folder.path, " has quantized weights"), "take the model that it was quantized from");
  return made;
}

}  // namespace capstan::job
