#pragma once
#include <capstan/base/export.h>
#include <string>
#include <vector>

#include <capstan/config/model_path.h>
#include <capstan/plugin/host.h>

CAPSTAN_BEGIN_NAMESPACE
namespace commands {

/// What a name on the command line means as a model.
struct ModelChoice {
  std::string config;                  ///< configuration file; empty: there is none
  std::vector<std::string> overrides;  ///< options that say the rest
  std::string weights;                 ///< folder of a run's weights; empty: what the options start from
  std::string run;                     ///< the run's folder; empty: it is none
};

/// A run's folder (config.toml and weights), a folder of weights inside of one (a checkpoint), or a Hugging Face model
/// folder or an id of the hub that is in its cache, for which the plugin is the one that knows its model_type. Throws
/// Error for anything else.
ModelChoice choose_model(const std::string& name, const config::HubCache& hub, plugin::Host& host);

}  // namespace commands
CAPSTAN_END_NAMESPACE
