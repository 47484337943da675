#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "job/job.h"

CAPSTAN_BEGIN_NAMESPACE
namespace job {

/// Where a run's checkpoints lie in its folder.
std::filesystem::path checkpoint_folder(const std::filesystem::path& run_folder);
/// The folder in which a run of this job continues under checkpoint.resume = "auto".
std::filesystem::path own_run_folder(const Job& job);

/// What a run continues from.
struct Resume {
  std::unique_ptr<checkpoint::Reader> reader;  ///< null: the run starts from its beginning
  std::vector<Diagnostic> skipped;             ///< newer checkpoints, each with what is wrong with it
  /// Newer ones in the run's own folder: they must step aside, since this run will pass their steps again.
  std::vector<std::filesystem::path> newer;
};

/// Judges, before anything is allocated, whether the job may continue from what checkpoint.resume means, for `check`
/// too: hashes are not looked at. False: there is nothing to resume.
bool judge_resume(const Job& job, Diagnostics& diagnostics);

/// Does checkpoint.accept name it, or the table that it is in?
bool is_accepted(const setup::CheckpointOptions& options, const std::string& name);

/// What a checkpoint calls a record's copy on ranks that keep values of their own: the first has the plain name.
std::string saved_name(const std::string& kind, const std::string& record, int copy);

}  // namespace job
CAPSTAN_END_NAMESPACE
