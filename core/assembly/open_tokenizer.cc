#include "assembly/open_tokenizer.h"

#include <filesystem>

#include "config/paths.h"
#include "setup/collect.h"
#include "setup/model_path.h"
#include "tokenizer/tokenizers.h"

namespace capstan::assembly {
namespace {

// A path starts at the folder of the file that names it, a hub id means a folder of its cache; "auto" and "byte" are
// words, and so is what looks like none of these.
std::string tokenizer_name(const config::Options<setup::DataOptions>& options, const setup::HubCache& hub) {
  const auto& name = options->tokenizer;
  if (name == "auto" || name == "byte") return name;
  for (const auto& option : options.resolved()) {
    if (option.spec.key != "tokenizer") continue;
    const auto path = config::absolute_path(name, option.origin);
    const auto folder = setup::find_tokenizer({name, path, option.origin.text(), "data.tokenizer"}, hub);
    if (folder || name.find('/') != std::string::npos || std::filesystem::exists(path))
      return folder ? folder->string() : path;
  }
  return name;
}

}  // namespace

std::optional<ChosenTokenizer> open_tokenizer(const setup::Configuration& config, const setup::LoadedPlugins& plugins,
                                              Diagnostics& faults) {
  const auto before = faults.size();
  ChosenTokenizer chosen;
  const auto& options = plugins.data_options;
  setup::collect(
      faults, [&] { chosen.name = tokenizer_name(options, config.request.hub); }, "");
  if (faults.size() != before) return {};
  const auto& folder = plugins.model_options->path;
  const bool of_folder = chosen.name == "auto" && folder;
  if (of_folder && !plugins.model) return {};  // that folder was refused already
  setup::collect(
      faults, [&] { chosen.object = tokenizer::make_tokenizer(chosen.name, folder.value_or("")); },
      of_folder ? plugins.model_options.where(&setup::ModelOptions::path)
                : options.where(&setup::DataOptions::tokenizer));
  if (!chosen.object) return {};
  return chosen;
}

}  // namespace capstan::assembly
