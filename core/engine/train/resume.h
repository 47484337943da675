#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/communicator.h>

#include <filesystem>
#include <memory>
#include <string>

#include "job/resume.h"
#include "record/run_lock.h"
#include "step/stop.h"
#include "train/run_folder.h"

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// Makes the run's folder on rank 0 and tells the others: a run that continues by itself (checkpoint.resume = "auto")
/// has its own, any other a new one. A collective over the world.
std::filesystem::path shared_run_folder(const setup::Configuration& config, comm::Communicator& communicator);

/// Rank 0 takes the run's folder for this process, waiting where it must; the others get nothing. `job` as in
/// record::LockHolder. A collective over the world, and one that can be stopped.
std::unique_ptr<record::RunLock> hold_run_folder(const std::filesystem::path& folder, const std::string& job,
                                                 comm::Communicator& communicator,
                                                 const step::StopAgreement& agreement);

/// Finds and verifies what the run continues from. Rank 0 says in the log what was passed over and why, moves that
/// aside in the run's own folder (its steps will be saved again; nothing is removed). What cannot be read is refused,
/// on all ranks alike. metrics.jsonl stays as it is until the checkpoint was read (Loop). A collective over the world.
job::Resume resume_run(const job::Job& job, comm::Communicator& communicator);

}  // namespace train
CAPSTAN_END_NAMESPACE
