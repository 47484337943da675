#pragma once
#include <capstan/base/export.h>

#include <filesystem>
#include <string>
#include <vector>

#include "launch/arguments.h"
#include "launch/launch.h"
#include "setup/options.h"

CAPSTAN_BEGIN_NAMESPACE
namespace ranks {

/// Records in the run's folder which command of which SLURM job began it, for find_restarted(). Does nothing outside
/// SLURM.
void note_job(const launch::Environment& env, const launch::RunArguments& command,
              const std::filesystem::path& run_folder);

/// What a requeued SLURM job adds to its command line to resume the run that this command began, whatever number that
/// run's folder has after its name: run.name and checkpoint.resume. A script may have several commands: each finds its
/// own run by its arguments, and by its step's number if arguments are the same. Nothing on a job's first start, for
/// runs that save no checkpoints, and if this command left no run. A checkpoint.resume that names a folder is kept
/// until the run has a checkpoint of its own. Throws FileError if the run's folder may be one that cannot be
/// read.
std::vector<std::string> find_restarted(const launch::Environment& env, const setup::RunOptions& run,
                                        const setup::CheckpointOptions& checkpoint,
                                        const launch::RunArguments& command);

/// The command line, for a shell, that continues the run of this folder: `command_line` with run.name and
/// checkpoint.resume.
std::string resume_command(const std::vector<std::string>& command_line, const std::filesystem::path& run_folder);

}  // namespace ranks
CAPSTAN_END_NAMESPACE
