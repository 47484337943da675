#include "setup/open_tokenizer.h"

#include <filesystem>

#include "config/paths.h"
#include "setup/collect.h"
#include "setup/model_path.h"
#include "tokenizer/tokenizers.h"

namespace capstan::setup {
namespace {

// A path starts at the folder of the file that names it, a hub id means a folder of its cache; "auto" and "byte" are
// words, and so is what looks like none of these.
void find_tokenizer_file(Job& job, const HubCache& hub) {
  const auto name = job.data_options->tokenizer;
  if (name == "auto" || name == "byte") return;
  for (const auto& option : job.data_options.resolved()) {
    if (option.spec.key != "tokenizer") continue;
    const auto path = config::absolute_path(name, option.origin);
    const auto folder = find_tokenizer({name, path, option.origin.text(), "data.tokenizer"}, hub);
    if (folder || name.find('/') != std::string::npos || std::filesystem::exists(path))
      job.data_options.derive(&DataOptions::tokenizer, folder ? folder->string() : path);
  }
}

}  // namespace

void open_tokenizer(Job& job, const HubCache& hub, Diagnostics& diagnostics) {
  const auto before = diagnostics.size();
  collect(
      diagnostics, [&] { find_tokenizer_file(job, hub); }, "");
  if (diagnostics.size() != before) return;
  const auto& name = job.data_options->tokenizer;
  const auto& folder = job.model_options->path;
  if (name == "auto" && folder && !job.model.object) return;  // that folder was refused already
  collect(
      diagnostics, [&] { job.tokenizer = tokenizer::make_tokenizer(name, folder.value_or("")); },
      name == "auto" && folder ? job.model_options.where(&ModelOptions::path)
                               : job.data_options.where(&DataOptions::tokenizer));
}

}  // namespace capstan::setup
