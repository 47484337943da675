#include "train/exports.h"

#include <capstan/base/counted.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include "checkpoint/whole_folder.h"
#include "comm/agree.h"
#include "job/weights.h"

namespace capstan::train {

namespace fs = std::filesystem;

std::string refusal_of(const job::Export& chosen, const job::Plugins& plugins) {
  const auto files = plugins.model->object->file_map();
  return plugin::guard(chosen.strategy, "export", [&] { return chosen.exporter->refusal(files); });
}

std::string write_export(const job::Export& chosen, const job::Plugins& plugins, layout::Source& values,
                         const fs::path& folder) {
  const auto& exporter = *chosen.exporter;
  if (const auto reason = refusal_of(chosen, plugins); !reason.empty())
    throw Error(cat("this run cannot be written for ", exporter.name(), ": ", reason));
  const auto temporary = checkpoint::make_temporary(folder);
  const strategy::Exported run{plugins.model->object->file_map(), values, plugins.model_options->path.value_or("")};
  const auto said = plugin::guard(chosen.strategy, "export", [&] { return exporter.write(temporary, run); });
  checkpoint::put_in_place(folder);
  return cat(exporter.folder(), " for ", exporter.name(), ": ", folder.string(), " (", said, ")");
}

std::string write_final_model(const hf::ModelToWrite& model, const fs::path& weights, const fs::path& run,
                              comm::Communicator& communicator) {
  std::vector<std::string> lines;
  for (const auto& one : job::exports_of(model.plugins.strategies)) {
    if (!one.exporter->at_end()) continue;
    const auto folder = one.exporter->folder();
    if (const auto reason = refusal_of(one, model.plugins); !reason.empty()) {
      lines.push_back(cat("no ", folder, " folder for ", one.exporter->name(), ": ", reason));
      continue;
    }
    lines.push_back(comm::from_first_rank(communicator, cat("writing the ", folder, "'s folder"), [&] {
      return write_export(one, model.plugins, *job::open_boxes(weights), run / folder);
    }));
  }
  const auto reason = hf::door().not_exportable(model.plugins, model.units);
  if (reason.empty()) {
    lines.push_back(written_text(hf::door().write(model, *job::open_boxes(weights), run / "model", {}, communicator)));
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

}  // namespace capstan::train
