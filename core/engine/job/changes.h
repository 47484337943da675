#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include <map>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "job/job.h"

CAPSTAN_BEGIN_NAMESPACE
namespace job {

/// Something that decides what a run learns and is not as it was in the run that saved a checkpoint.
struct Change {
  std::string name;  ///< what checkpoint.accept calls it: "optimizer.clip"
  std::string was;   ///< for people
  std::string is;
  Diagnostic refusal;
};

/// The folders that a run which resumes reads once more, by the option that names each: of the objective's models, and
/// of frozen weights that its checkpoints do not have. Each with its record::fingerprint().
std::map<std::string, std::string> frozen_folders(const Job& job);

/// The options of [model], [data] and [optimizer], train.precision, the training data and frozen folders by their
/// content, and strategies (with their options) that are about more than the layout: all that differ from what the
/// checkpoint says. What it does not say counts as equal. Not compared: where files lie, evaluation, the schedule, the
/// layout.
std::vector<Change> changes_since(const Job& job, const checkpoint::Reader& reader);
/// Adds a fault for each name in checkpoint.accept that stands for nothing of the job, nor of the checkpoint, if any.
void check_accepted(const Job& job, const checkpoint::Reader* reader, Diagnostics& diagnostics);
/// Does checkpoint.accept name it, or the table that it is in?
bool is_accepted(const setup::CheckpointOptions& options, const std::string& name);

/// The sections of a checkpoint that this takes: "data" (what the samples are), "folders" (frozen_folders()),
/// "strategies" (which ones count).
std::map<std::string, std::string> change_sections(const Job& job);

}  // namespace job
CAPSTAN_END_NAMESPACE
