#include "session/exports.h"

#include <capstan/base/counted.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <system_error>

#include "comm/agree.h"
#include "session/weights.h"

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

std::string write_final_model(const hf::ModelToWrite& model, const fs::path& weights, const fs::path& run,
                              comm::Communicator& communicator) {
  std::vector<std::string> lines;
  for (const auto& one : exports_of(model.plugins.strategies)) {
    if (!one.exporter->at_end()) continue;
    const auto folder = one.exporter->folder();
    if (const auto reason = refusal_of(one, model.plugins); !reason.empty()) {
      lines.push_back(cat("no ", folder, " folder for ", one.exporter->name(), ": ", reason));
      continue;
    }
    lines.push_back(comm::from_first_rank(communicator, cat("writing the ", folder, "'s folder"), [&] {
      return write_export(one, model.plugins, *open_boxes(weights), run / folder);
    }));
  }
  const auto reason = hf::door().not_exportable(model.plugins, model.units);
  if (reason.empty()) {
    lines.push_back(written_text(hf::door().write(model, *open_boxes(weights), run / "model", {}, communicator)));
  } else if (lines.empty()) {
    lines.push_back("no model folder for transformers: " + reason);
  }
  return join(lines, "\n");
}

std::string written_text(const hf::WrittenModel& written) {
  std::vector<std::string> ends;
  for (const auto id : written.added_ends) ends.push_back(std::to_string(id));
  return cat("model for transformers: ", written.folder.string(), " (", written.dtype, ", ",
             bytes_text(static_cast<double>(written.bytes)), " in ", counted(written.files, "file"),
             written.has_tokenizer ? ")" : "; without a tokenizer: this run's has no files)",
             ends.empty() ? "" : cat("; its eos_token_id has ", join(ends), " too, which this run's answers end with"));
}

}  // namespace capstan::session
