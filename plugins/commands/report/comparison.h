#pragma once
#include <optional>
#include <string>
#include <vector>

#include "runs/run.h"

namespace report {

/// Sentences about what makes numbers of these runs incomparable with the base's: they differ in the model, the data
/// or the batch size, or are not as long. Options in `grows` may differ, since the table is about their growth. Either
/// a rank's batch or the batch of all ranks has to be the base's, and either the steps or the samples.
std::vector<std::string> what_is_mixed(const std::vector<runs::Run>& runs, const runs::Run& base,
                                       const std::vector<std::string>& grows);

/// Options of which the runs have several values, what says most first. Names and folders are not among them, nor what
/// monitors are told.
std::vector<std::string> differing_options(const std::vector<runs::Run>& runs);

/// The run with the lowest loss.
struct Best {
  std::size_t place = 0;  ///< among the runs
  std::string why;        ///< "the lowest Eval Loss (Final)"
};
/// By the first of evaluation's last loss, the mean and the last loss of training that all runs have. None: there is
/// only one run, they learned from different data, or several have it.
std::optional<Best> best_of(const std::vector<runs::Run>& runs);

/// Where a run without a summary stands: "a: step 41 of 100, under way". Empty for others.
std::string progress_of(const runs::Run& run);

}  // namespace report
