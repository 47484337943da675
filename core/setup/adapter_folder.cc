#include "setup/adapter_folder.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/checkpoint/peft.h>

#include <set>
#include <system_error>

#include "setup/assemble.h"

namespace capstan::setup {

namespace fs = std::filesystem;

std::vector<const nn::Adapter*> adapters_of(const std::vector<nn::Unit*>& units) {
  std::vector<const nn::Adapter*> adapters;
  for (const auto* unit : units) {
    for (const auto& adapter : unit->adapters()) adapters.push_back(&adapter);
  }
  return adapters;
}

std::string not_peft(const std::vector<nn::Unit*>& units) {
  std::set<const layout::Param*> of_adapters;
  for (const auto* adapter : adapters_of(units)) {
    for (const auto& weight : {adapter->down, adapter->up}) {
      for (const auto& record : weight->records()) of_adapters.insert(&record);
    }
  }
  if (of_adapters.empty()) return "the run has no adapters";
  for (const auto* record : records_of(units)) {
    if (record->trainable && !of_adapters.contains(record))
      return cat(record->name, " was trained beside the adapters: export it merged, --to hf --merge");
  }
  return {};
}

std::string write_adapter_folder(const Job& job, const std::vector<nn::Unit*>& units, layout::Source& values,
                                 const fs::path& folder) {
  if (const auto reason = not_peft(units); !reason.empty())
    throw Error("this run cannot be written as a PEFT folder: " + reason);
  const auto adapters = adapters_of(units);
  const auto temporary = fs::path(folder.string() + ".tmp");
  std::error_code error;
  fs::remove_all(temporary, error);
  fs::create_directories(temporary, error);
  if (error) throw Error(cat("cannot make it: ", error.message()), {}, temporary.string());
  checkpoint::write_peft(temporary, adapters, job.model.object->file_map(), values,
                         job.model_options->path.value_or(""));
  fs::remove_all(folder, error);
  fs::rename(temporary, folder, error);
  if (error) throw Error(cat("cannot move ", temporary.string(), " to it: ", error.message()), {}, folder.string());
  std::int64_t parameters = 0;
  for (const auto* adapter : adapters) parameters += adapter->down->numel() + adapter->up->numel();
  return cat("adapter for peft: ", folder.string(), " (rank ", adapters.front()->rank, ", ", thousands(parameters),
             " parameters)");
}

}  // namespace capstan::setup
