#include "train/final_model.h"

#include <capstan/base/text.h>

#include "comm/agree.h"
#include "session/exports.h"
#include "session/model_folder.h"
#include "session/weights.h"

namespace capstan::train {

std::string write_final_model(const FinalModel& model, const std::filesystem::path& weights,
                              const std::filesystem::path& run, comm::Communicator& communicator) {
  const auto& [plugins, tokenizer, train, units] = model;
  std::vector<std::string> lines;
  for (const auto& one : session::exports_of(plugins.strategies)) {
    if (!one.exporter->at_end()) continue;
    const auto folder = one.exporter->folder();
    if (const auto reason = session::refusal_of(one, plugins); !reason.empty()) {
      lines.push_back(cat("no ", folder, " folder for ", one.exporter->name(), ": ", reason));
      continue;
    }
    lines.push_back(comm::from_first_rank(communicator, cat("writing the ", folder, "'s folder"), [&] {
      return session::write_export(one, model.plugins, *session::open_boxes(weights), run / folder);
    }));
  }
  const auto reason = session::not_exportable(plugins, units);
  if (reason.empty()) {
    const auto values = session::open_boxes(weights);
    const session::ModelToWrite to_write{plugins, tokenizer, train};
    lines.push_back(
        session::written_text(session::write_model_folder(to_write, units, *values, run / "model", {}, communicator)));
  } else if (lines.empty()) {
    lines.push_back("no model folder for transformers: " + reason);
  }
  return join(lines, "\n");
}

}  // namespace capstan::train
