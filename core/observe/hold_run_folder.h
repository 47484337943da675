#pragma once
#include <capstan/comm/communicator.h>

#include <filesystem>
#include <memory>
#include <string>

#include "inference/stop.h"
#include "record/run_lock.h"

CAPSTAN_BEGIN_NAMESPACE
namespace observe {

/// Rank 0 takes the run's folder for this process, waiting where it must; the others get nothing. `job` as in
/// record::LockHolder. A collective over the world, and one that can be stopped.
std::unique_ptr<record::RunLock> hold_run_folder(const std::filesystem::path& folder, const std::string& job,
                                                 comm::Communicator& communicator,
                                                 const inference::StopAgreement& agreement);

}  // namespace observe
CAPSTAN_END_NAMESPACE
