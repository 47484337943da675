#include "session/exports.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <system_error>

namespace capstan::session {

namespace fs = std::filesystem;

fs::path temporary_of(const fs::path& folder) { return folder.string() + ".tmp"; }

fs::path make_temporary(const fs::path& folder) {
  auto temporary = temporary_of(folder);
  std::error_code error;
  fs::remove_all(temporary, error);
  if (!error) fs::create_directories(temporary, error);
  if (error) throw Error(cat("cannot make it: ", error.message()), {}, temporary.string());
  return temporary;
}

void put_in_place(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (!error) fs::rename(temporary_of(folder), folder, error);
  if (error)
    throw Error(cat("cannot move ", temporary_of(folder).string(), " to it: ", error.message()), {}, folder.string());
}

std::vector<Export> exports_of(const assembly::Strategies& strategies) {
  std::vector<Export> all;
  for (const auto& made : strategies) {
    for (auto& exporter : plugin::guard(made.name, "exporters", [&] { return made.object->exporters(); }))
      all.push_back({made.name, std::move(exporter)});
  }
  return all;
}

std::string export_options(const assembly::Strategies& strategies) {
  std::vector<std::string> options;
  for (const auto& one : exports_of(strategies)) options.push_back("--to " + one.exporter->name());
  return join(options, " or ");
}

std::string refusal_of(const Export& chosen, const assembly::Plugins& plugins) {
  const auto files = plugins.model.object->file_map();
  return plugin::guard(chosen.strategy, "export", [&] { return chosen.exporter->refusal(files); });
}

std::string write_export(const Export& chosen, const assembly::Plugins& plugins, layout::Source& values,
                         const fs::path& folder) {
  const auto& exporter = *chosen.exporter;
  if (const auto reason = refusal_of(chosen, plugins); !reason.empty())
    throw Error(cat("this run cannot be written for ", exporter.name(), ": ", reason));
  const auto temporary = make_temporary(folder);
  const strategy::Exported run{plugins.model.object->file_map(), values, plugins.model_options->path.value_or("")};
  const auto said = plugin::guard(chosen.strategy, "export", [&] { return exporter.write(temporary, run); });
  put_in_place(folder);
  return cat(exporter.folder(), " for ", exporter.name(), ": ", folder.string(), " (", said, ")");
}

}  // namespace capstan::session
