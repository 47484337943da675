#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/communicator.h>

#include <filesystem>

#include "observe/run_folder.h"
#include "session/resume.h"

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// Makes the run's folder on rank 0 and tells the others: a run that continues by itself (checkpoint.resume = "auto")
/// has its own, any other a new one. A collective over the world.
std::filesystem::path shared_run_folder(const setup::Configuration& config, comm::Communicator& communicator);

/// Finds and verifies what the run continues from. Rank 0 says in the log what was passed over and why, moves that
/// aside in the run's own folder (its steps will be saved again; nothing is removed). What cannot be read is refused,
/// on all ranks alike. metrics.jsonl stays as it is until the checkpoint was read (Loop). A collective over the world.
session::Resume resume_run(const session::Job& job, comm::Communicator& communicator);

}  // namespace train
CAPSTAN_END_NAMESPACE
