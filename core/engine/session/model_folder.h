#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/communicator.h>
#include <capstan/layout/source.h>
#include <capstan/nn/model.h>
#include <capstan/session/run_to_export.h>
#include <capstan/tokenizer/open.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "assembly/plugins.h"

CAPSTAN_BEGIN_NAMESPACE
namespace session {

/// What a folder is written from, besides the values.
struct ModelToWrite {
  const assembly::Plugins& plugins;
  const tokenizer::Opened& tokenizer;
  const setup::TrainOptions& train;
  std::vector<nn::Unit*> units;
  std::vector<std::int64_t> answer_ends = {};  ///< ids that the run's answers end with
};

/// What is said of a folder that was written.
struct WrittenModel {
  std::filesystem::path folder;
  std::int64_t bytes = 0;
  std::size_t files = 0;
  std::string dtype;  ///< "bfloat16"
  bool has_tokenizer = false;
  std::vector<std::int64_t> added_ends = {};  ///< answer_ends that its eos_token_id would not have had
};

/// "model for transformers: runs/a/model (bfloat16, 1.04 GiB in 2 files)".
std::string written_text(const WrittenModel& written);

/// Writes a folder that transformers loads: config.json, weights, and from where the run had them
/// generation_config.json and the tokenizer's files. `values` gives the records of its units, frozen ones come from
/// model.path's own files. Each rank writes files of its own and no rank holds more than one tensor. The folder appears
/// at its name when it is complete; one that stands there is replaced. A collective: an error of any rank is thrown on
/// all of them.
WrittenModel write_model_folder(const ModelToWrite& model, layout::Source& values, const std::filesystem::path& folder,
                                const ExportForm& form, comm::Communicator& communicator);

/// What a run leaves for other libraries at its end, from its `weights` folder: what its strategies' exporters write
/// then, and `run`/model for transformers where its files have a place for all records. Returns a line on each, or on
/// why there is none. Collective over the world.
std::string write_final_model(const ModelToWrite& model, const std::filesystem::path& weights,
                              const std::filesystem::path& run, comm::Communicator& communicator);

/// The forms in which frozen weights of these units can be written.
std::vector<std::string> forms_of(const std::vector<nn::Unit*>& units);

/// Why this model cannot be written as such a folder; empty: it can.
std::string not_exportable(const assembly::Plugins& plugins, const std::vector<nn::Unit*>& units);

}  // namespace session
CAPSTAN_END_NAMESPACE
