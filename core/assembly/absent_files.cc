#include "assembly/absent_files.h"

#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/config/model_path.h>
#include <capstan/tokenizer/open.h>

#include "config/paths.h"

namespace capstan::assembly {
namespace {

bool names_what_is_absent(const config::Resolved& option) {
  const auto* path = std::get_if<std::string>(&option.value);
  return option.spec.is_path && option.origin.layer != config::Origin::Layer::default_value && path && !path->empty() &&
         !is_there(*path);
}

bool tokenizer_is_absent(const config::Resolved& option, const config::HubCache& hub, const plugin::Host& host) {
  const auto& name = std::get<std::string>(option.value);
  if (name.find('/') == std::string::npos) return false;  // a word
  const auto path = config::absolute_path(name, option.origin);
  try {
    const auto files = tokenizer::file_names(host);
    return !config::find_tokenizer({name, path, option.origin.text(), "data.tokenizer"}, hub, files) && !is_there(path);
  } catch (const Error&) {
    return true;
  }
}

}  // namespace

std::vector<std::string> absent_files(const setup::Configuration& config, const LoadedPlugins& plugins,
                                      const plugin::Host& host) {
  std::vector<std::string> absent;
  if (plugins.stand_in) absent.push_back(cat("model.path (", plugins.stand_in->named, ")"));
  for (const auto& option : plugins.data_options.resolved()) {
    if (option.spec.key == "tokenizer" && tokenizer_is_absent(option, config.request.hub, host))
      absent.push_back(cat("data.tokenizer (", config::value_text(option.value), ")"));
  }
  if (!plugins.data) return absent;
  for (const auto& option : plugins.data->options) {
    if (names_what_is_absent(option))
      absent.push_back(cat("data.", option.spec.key, " (", config::value_text(option.value), ")"));
  }
  return absent;
}

}  // namespace capstan::assembly
