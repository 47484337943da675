#pragma once
#include <capstan/comm/communicator.h>

#include <filesystem>
#include <memory>
#include <string>

#include "inference/stop.h"
#include "record/run_lock.h"

CAPSTAN_BEGIN_NAMESPACE
namespace record {

/// Rank 0 takes the run's folder for this process, waiting where it must; the others get nothing. `job` as in
/// LockHolder. A collective over the world, and one that can be stopped.
std::unique_ptr<RunLock> hold_run_folder(const std::filesystem::path& folder, const std::string& job,
                                         comm::Communicator& communicator, const inference::StopAgreement& agreement);

}  // namespace record
CAPSTAN_END_NAMESPACE
