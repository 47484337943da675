#include "job/open_tokenizer.h"

#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/config/model_path.h>

#include "config/paths.h"
#include "setup/collect.h"

namespace capstan::job {
namespace {

// A path starts at the folder of the file that names it, a hub id means a folder of its cache; "auto" and "byte" are
// words, and so is what looks like none of these.
std::string tokenizer_name(const config::Options<setup::DataOptions>& options, const config::HubCache& hub,
                           const plugin::Host& host) {
  const auto& name = options->tokenizer;
  if (name == "auto" || name == "byte") return name;
  for (const auto& option : options.resolved()) {
    if (option.spec.key != "tokenizer") continue;
    const auto path = config::absolute_path(name, option.origin);
    const auto folder =
        config::find_tokenizer({name, path, option.origin.text(), "data.tokenizer"}, hub, tokenizer::file_names(host));
    if (folder || name.find('/') != std::string::npos || is_there(path)) return folder ? folder->string() : path;
  }
  return name;
}

bool names_what_is_absent(const config::Resolved& option) {
  const auto* path = std::get_if<std::string>(&option.value);
  return option.spec.is_path && option.origin.layer != config::Origin::Layer::default_value && path && !path->empty() &&
         !is_there(*path) && !is_there(*path + ".bin") && !is_there(*path + ".idx");  // or what a pair begins with
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

std::optional<tokenizer::Opened> open_tokenizer(const setup::Configuration& config, const Plugins& plugins,
                                                plugin::Host& host, Diagnostics& faults) {
  const auto before = faults.size();
  tokenizer::Opened opened;
  const auto& options = plugins.data_parts.options;
  setup::collect(
      faults, [&] { opened.name = tokenizer_name(options, config.request.hub, host); }, "");
  if (faults.size() != before) return {};
  const auto& folder = plugins.model_options->path;
  const bool is_plugin = !config.document.section("tokenizer").entries.empty();
  const bool of_folder = opened.name == "auto" && folder;
  // What was refused already: that folder, or the plugin.
  if ((of_folder && !plugins.model) || (is_plugin && !plugins.tokenizer)) return {};
  if (is_plugin) {
    const auto& made = *plugins.tokenizer;
    setup::collect(
        faults, [&] { opened = tokenizer::open_by(made.name, made.file, made.object, {folder.value_or("")}); },
        made.where);
  } else {
    setup::collect(
        faults, [&] { opened = tokenizer::open_named(opened.name, folder.value_or(""), host); },
        of_folder ? plugins.model_options.where(&setup::ModelOptions::path)
                  : options.where(&setup::DataOptions::tokenizer));
  }
  if (faults.size() != before) return {};
  return opened;
}

data::SplitRequest request_with(const tokenizer::Opened& tokenizer, const std::string& model_folder,
                                data::SplitRequest request) {
  request.tokenizer = tokenizer.object;
  request.tokenizer_folder = tokenizer.folder().string();
  request.model_folder = model_folder;
  for (const auto& file : tokenizer.files()) request.tokenizer_files.push_back(file.string());
  return request;
}

std::vector<std::string> absent_files(const setup::Configuration& config, const Plugins& plugins,
                                      const plugin::Host& host) {
  std::vector<std::string> absent;
  if (plugins.stand_in) absent.push_back(cat("model.path (", plugins.stand_in->named, ")"));
  for (const auto& option : plugins.data_parts.options.resolved()) {
    if (option.spec.key == "tokenizer" && tokenizer_is_absent(option, config.request.hub, host))
      absent.push_back(cat("data.tokenizer (", config::value_text(option.value), ")"));
  }
  if (!plugins.data) return absent;
  const auto add = [&](const Made<data::Data>& made) {
    for (const auto& option : made.options) {
      if (names_what_is_absent(option))
        absent.push_back(cat(made.table, ".", option.spec.key, " (", config::value_text(option.value), ")"));
    }
  };
  add(*plugins.data);
  for (const auto& source : plugins.data_parts.sources) add(source.made);
  return absent;
}

}  // namespace capstan::job
