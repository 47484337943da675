#pragma once
#include <capstan/base/export.h>

#include <filesystem>
#include <string>

#include "session/session.h"

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// What the folders that other libraries load are written from.
struct FinalModel {
  const assembly::Plugins& plugins;
  const tokenizer::Opened& tokenizer;
  const setup::TrainOptions& train;
  const std::vector<nn::Unit*>& units;
};

/// Writes, from the run's `weights` folder, what its strategies' exporters write at a run's end, and `run`/model for
/// transformers where its files have a place for all records; returns a line on each, or on why there is none.
/// Collective over the world.
std::string write_final_model(const FinalModel& model, const std::filesystem::path& weights,
                              const std::filesystem::path& run, comm::Communicator& communicator);

}  // namespace train
CAPSTAN_END_NAMESPACE
