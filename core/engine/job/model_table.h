#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/plugin/host.h>

#include <string>

#include "config/plugin_table.h"
#include "hf/model_folder.h"
#include "job/plugins.h"
#include "setup/presets.h"

CAPSTAN_BEGIN_NAMESPACE
namespace job {

/// What a model's options start from, below the configuration.
struct ModelStart {
  std::optional<setup::ModelPreset> preset;  ///< sizes for a model with random values
  std::optional<hf::ModelFolder> folder;     ///< a folder with sizes and values
};

/// [model] before its plugin is opened.
struct ModelTable {
  config::PluginTable plugin;  ///< without a name where there is none, which is a fault or follows from `absent`
  ModelStart start;            ///< the folder of model.path
  Diagnostics absent;          ///< why that is not there
};

/// Reads it, with the plugin that the folder's config.json means where the table names none, or that has a preset of
/// this name where the folder is not there. Fills in plugins.model_options; `plugins` has its strategies, which may
/// read an adapter in the folder.
ModelTable read_model_table(const setup::Configuration& config, Plugins& plugins, plugin::Host& host,
                            Diagnostics& faults);

/// model.path as the user wrote it: perhaps relative, or a hub's id.
std::string written_path(const config::Options<setup::ModelOptions>& options);

/// [model] with the preset where the path was.
config::Options<setup::ModelOptions> with_stand_in(config::Section section, const StandIn& stand_in);

}  // namespace job
CAPSTAN_END_NAMESPACE
