#pragma once
#include <capstan/base/export.h>

#include <filesystem>
#include <string>
#include <vector>

#include "app/launch.h"
#include "setup/options.h"

CAPSTAN_BEGIN_NAMESPACE
namespace app {

/// Leaves the SLURM job's number in the run's folder, for find_restarted(). Nothing outside of SLURM.
void note_job(const Environment& env, const std::filesystem::path& run_folder);

/// What a job that SLURM put back into the queue adds to its command line, so that it goes on with the run that it
/// began, whatever number that run's folder has behind its name: run.name and checkpoint.resume. Nothing on a job's
/// first start, for runs that save no checkpoints, and where it left no run. A checkpoint.resume that names a folder
/// stays until the run has a checkpoint of its own.
std::vector<std::string> find_restarted(const Environment& env, const setup::RunOptions& run,
                                        const setup::CheckpointOptions& checkpoint, const std::string& config);

}  // namespace app
CAPSTAN_END_NAMESPACE
