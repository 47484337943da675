#include "frozen/door.h"

#include <capstan/base/text.h>
#include <capstan/config/model_path.h>
#include <capstan/nn/codec.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "config/paths.h"
#include "hf/door.h"
#include "job/job.h"
#include "nn/init_source.h"
#include "setup/collect.h"

namespace capstan::frozen {
namespace {

using job::FrozenModel;
using job::FrozenPlugin;
using job::Made;
using job::Plugins;
using job::Samples;
using job::Strategies;
using job::Topology;

// What in the objective's table names the model.
struct Named {
  std::string option;
  std::string written;
  config::Origin origin;
};

// What is written, or else the option's default.
Named named_by(const objective::ModelSpec& spec, const Made<objective::Objective>& objective,
               const setup::Configuration& config) {
  const auto table = config.document.section("objective");
  const auto* entry = table.find(spec.option);
  const auto* written = entry ? std::get_if<std::string>(&entry->value) : nullptr;
  const auto option = "objective." + spec.option;
  if (written) return {option, *written, entry->origin};
  for (const auto& one : objective.options) {
    const auto* value = one.spec.key == spec.option ? std::get_if<std::string>(&one.value) : nullptr;
    if (value && !value->empty()) return {option, *value, one.origin};
  }
  throw Error(cat(option, " is not set"), "name a model's folder, or \"start\"");
}

std::optional<FrozenPlugin> of_folder(const std::string& name, const Named& what, const setup::Configuration& config,
                                      plugin::Host& host, Diagnostics& faults) {
  const auto where = what.origin.text();
  const auto folder = config::find_model(
      {what.written, config::absolute_path(what.written, what.origin), where, what.option}, config.request.hub);
  config::PluginTable table;
  table.name = hf::door().plugin_of_folder(folder.string(), host);
  table.where = where;
  table.section = {what.option, what.origin, {}};
  auto made = job::load_other_model(table, {folder.string(), where}, host, faults);
  if (!made) return {};
  plugin::guard(made->name, "check", [&] { made->object->check(faults); });
  const auto facts = plugin::guard(made->name, "facts", [&] { return made->object->facts(); });
  return FrozenPlugin{name, folder.string(), /*is_start=*/false, std::move(*made), facts};
}

void set_option(Made<objective::Objective>& made, const std::string& key, const std::string& value) {
  for (auto& option : made.options) {
    if (option.spec.key == key) option.value = value;
  }
}

// Without codecs: packed weights are refused.
std::unique_ptr<hf::Folder> folder_of(const FrozenPlugin& frozen, const Plugins& plugins) {
  return hf::door().open({*frozen.folder, frozen.model.object->file_map(), {}, {}, plugins.packed_forms});
}

std::vector<FrozenPlugin> load(const setup::Configuration& config, Plugins& plugins, plugin::Host& host,
                               Diagnostics& faults) {
  if (!plugins.minimised || !plugins.model) return {};
  const auto before = faults.size();
  const auto& trained_folder = plugins.model_options->path;
  std::vector<FrozenPlugin> all;
  std::vector<objective::KnownModel> known;
  for (const auto& spec : plugins.minimised->plan().models) {
    setup::collect(
        faults,
        [&] {
          const auto what = named_by(spec, *plugins.objective, config);
          auto one = what.written == "start" ? FrozenPlugin{spec.name, trained_folder, /*is_start=*/true,
                                                            *plugins.model, plugins.model_facts}
                                             : of_folder(spec.name, what, config, host, faults);
          if (!one) return;
          if (!one->is_start) set_option(*plugins.objective, spec.option, *one->folder);
          known.push_back({spec.name, what.origin.text(), one->folder.value_or(""), one->facts});
          all.push_back(std::move(*one));
        },
        plugins.objective->where);
  }
  if (all.empty() || faults.size() != before) return all;
  const objective::KnownModel trained{"the trained model", plugins.model->where, trained_folder.value_or(""),
                                      plugins.model_facts};
  setup::collect(
      faults, [&] { plugins.minimised->check_models(trained, known, faults); }, plugins.objective->where);
  return all;
}

void check_samples(const std::vector<FrozenPlugin>& frozen, const Samples& samples, Diagnostics& faults) {
  const auto length = samples.length;
  const auto words = samples.tokenizer.object ? samples.tokenizer.object->vocab_size() : 0;
  for (const auto& one : frozen) {
    if (words > one.facts.vocab_size) {
      faults.add(one.model.where,
                 cat("the tokenizer has ", thousands(words), " ids, and the model of '", one.name, "' has ",
                     thousands(one.facts.vocab_size), " words"),
                 "name a model with the same tokenizer");
    }
    if (length <= one.facts.max_positions) continue;
    faults.add(one.model.where,
               cat("samples may have ", thousands(length), " tokens, and the model of '", one.name, "' has ",
                   thousands(one.facts.max_positions), " positions"),
               "set a smaller data.max_length, or name another model");
  }
}

// What a run began with is read from the model's folder again, or drawn again. Neither has what a codec has rounded, or
// what strategies read from other files.
void check_start(const std::vector<FrozenPlugin>& frozen, const Plugins& plugins,
                 const std::vector<std::unique_ptr<nn::Unit>>& units, Diagnostics& faults) {
  if (std::none_of(frozen.begin(), frozen.end(), [](const auto& one) { return one.is_start; })) return;
  const auto& made = *plugins.objective;
  const auto refuse = [&](const std::string& why) {
    faults.add(made.where, cat("the objective '", made.name, "' compares with the model as it began, but ", why),
               "name the folder of a model that has all of it, or choose another reference");
  };
  for (const auto& unit : units) {
    const auto& weights = unit->weights();
    const auto packed =
        std::find_if(weights.begin(), weights.end(), [](const auto& one) { return one->keeping_codec(); });
    if (packed == weights.end()) continue;
    refuse(cat((*packed)->keeping_codec()->name(), " keeps weights of it in fewer bits, such as ", (*packed)->name()));
    break;
  }
  job::each_strategy(plugins.strategies, "values", [&](strategy::Strategy& strategy) {
    if (strategy.values(plugins.model->object->file_map())) refuse("a strategy brings values from files of its own");
  });
}

FrozenModel assemble(const FrozenPlugin& plugin, const Strategies& strategies, const Topology& topology,
                     const std::shared_ptr<strategy::MeshGroups>& groups) {
  auto model = std::make_shared<job::AssembledModel>();
  static_cast<job::BuiltModel&>(*model) = job::build_model(plugin.model);
  for (auto* record : nn::parameters(model->units)) record->trainable = false;
  model->groups = groups;
  auto own = job::fresh_strategies(strategies, topology);
  try {
    job::place(*model, own, topology);
  } catch (Error& error) {
    error.add_context(cat("the objective's model '", plugin.name, "' was placed"));
    throw;
  }
  model->rank_stages = strategy::RankStages::whole(job::pointers(model->units));
  return {plugin, std::move(own), std::move(model)};
}

void check_files(const std::vector<FrozenModel>& frozen, const Plugins& plugins, Diagnostics& faults) {
  for (const auto& one : frozen) {
    if (!one.plugin.folder) continue;
    const auto folder = folder_of(one.plugin, plugins);
    const auto records = job::records_of(job::pointers(one.model->units));
    folder->check(records, faults);
    for (const auto* record : records) {
      if (!folder->may_lack(*record)) continue;
      faults.add(*one.plugin.folder,
                 cat("it has no tensor of ", record->name, ", and a model that is not trained needs it"),
                 "name a folder that has it");
    }
  }
}

std::unique_ptr<layout::Source> values(const job::Job& job, const FrozenModel& frozen) {
  if (!frozen.plugin.folder) return std::make_unique<nn::InitSource>(job.seed());
  Diagnostics faults;
  check_files({frozen}, job.plugins, faults);
  faults.throw_if_any();
  return folder_of(frozen.plugin, job.plugins);
}

constexpr Door the_door{load, check_samples, check_start, assemble, check_files, values};

}  // namespace
}  // namespace capstan::frozen

extern "C" [[gnu::visibility("default")]] const void* capstan_frozen() { return &capstan::frozen::the_door; }
