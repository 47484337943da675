#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/layout/source.h>
#include <capstan/nn/model.h>

#include <memory>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "job/job.h"

CAPSTAN_BEGIN_NAMESPACE
namespace job {

/// Where the parameters of the assembled model begin: the model's own in its folder (every fault of which is in one
/// Error) or their initialisation; what strategies added, in what they say, or else its initialisation. Strategies are
/// not asked where the run's weights, or the checkpoint that it continues from, have all that they added.
std::unique_ptr<layout::Source> start_values(const Job& job, const checkpoint::Reader* resumed = nullptr);

/// What is wrong with the files that the model's own weights come from: known before a rank reads them.
/// `own`: the weights that the model's plugin made.
void check_model_files(const Plugins& plugins, const std::vector<nn::WeightPtr>& own, Diagnostics& diagnostics);
/// The same for files from which strategies take what they added: throws what they say when they open them.
void check_added_files(const Plugins& plugins);
/// Adds to the model's note what becomes of its folder's tensors: those that are kept, those that are decoded, and the
/// records that have none, as layout::FileMap::may_be_absent allows.
void note_model_files(Plugins& plugins, const std::vector<nn::WeightPtr>& own);

}  // namespace job
CAPSTAN_END_NAMESPACE
