#include "session/adapter_folder.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/checkpoint/peft.h>

#include <system_error>

namespace capstan::session {

namespace fs = std::filesystem;

std::vector<const nn::Adapter*> adapters_of(const std::vector<nn::Unit*>& units) {
  std::vector<const nn::Adapter*> adapters;
  for (const auto* unit : units) {
    for (const auto& adapter : unit->adapters()) adapters.push_back(&adapter);
  }
  return adapters;
}

std::string not_peft(const assembly::Plugins& plugins, const std::vector<nn::Unit*>& units) {
  return checkpoint::not_peft(checkpoint::peft_contents({units.begin(), units.end()}),
                              plugins.model.object->file_map());
}

std::string write_adapter_folder(const assembly::Plugins& plugins, const std::vector<nn::Unit*>& units,
                                 layout::Source& values, const fs::path& folder) {
  const auto contents = checkpoint::peft_contents({units.begin(), units.end()});
  const auto files = plugins.model.object->file_map();
  if (const auto reason = checkpoint::not_peft(contents, files); !reason.empty())
    throw Error("this run cannot be written as a PEFT folder: " + reason);
  const auto temporary = fs::path(folder.string() + ".tmp");
  std::error_code error;
  fs::remove_all(temporary, error);
  if (!error) fs::create_directories(temporary, error);
  if (error) throw Error(cat("cannot make it: ", error.message()), {}, temporary.string());
  checkpoint::write_peft(temporary, contents, files, values, plugins.model_options->path.value_or(""));
  fs::remove_all(folder, error);
  if (!error) fs::rename(temporary, folder, error);
  if (error) throw Error(cat("cannot move ", temporary.string(), " to it: ", error.message()), {}, folder.string());
  std::int64_t parameters = 0;
  for (const auto* adapter : contents.adapters) parameters += adapter->down->numel() + adapter->up->numel();
  for (const auto* record : contents.trained) parameters += layout::numel(record->shape);
  return cat("adapter for peft: ", folder.string(), " (rank ", contents.adapters.front()->rank, ", ",
             thousands(parameters), " parameters)");
}

}  // namespace capstan::session
