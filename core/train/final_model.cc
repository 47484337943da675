#include "train/final_model.h"

#include "comm/agree.h"
#include "session/adapter_folder.h"
#include "session/model_folder.h"
#include "session/weights.h"

namespace capstan::train {

std::string write_final_model(const FinalModel& model, const std::filesystem::path& weights,
                              const std::filesystem::path& run, comm::Communicator& communicator) {
  const auto& [plugins, tokenizer, train, units] = model;
  if (!session::adapters_of(units).empty()) {
    if (const auto reason = session::not_peft(plugins, units); !reason.empty())
      return "no adapter folder for peft: " + reason;
    // Small enough for one rank to write.
    return comm::from_first_rank(communicator, "writing the adapter's folder", [&] {
      return session::write_adapter_folder(model.plugins, model.units, *session::open_boxes(weights), run / "adapter");
    });
  }
  if (const auto reason = session::not_exportable(plugins, units); !reason.empty())
    return "no model folder for transformers: " + reason;
  const auto values = session::open_boxes(weights);
  const session::ModelToWrite to_write{plugins, tokenizer, train};
  return session::written_text(session::write_model_folder(to_write, units, *values, run / "model", {}, communicator));
}

}  // namespace capstan::train
