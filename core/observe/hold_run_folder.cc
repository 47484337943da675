#include "observe/hold_run_folder.h"

#include <chrono>
#include <thread>

#include "comm/agree.h"
#include "observe/run_folder.h"

namespace capstan::observe {

std::unique_ptr<record::RunLock> hold_run_folder(const std::filesystem::path& folder, const std::string& job,
                                                 comm::Communicator& communicator,
                                                 const inference::StopAgreement& agreement) {
  constexpr std::chrono::seconds between{1};
  const auto& world = communicator.world();
  std::unique_ptr<record::RunLock> lock;
  if (world.rank == 0) lock = std::make_unique<record::RunLock>(folder, record::RunLock::this_process(world.host, job));
  for (;;) {
    const auto take = [&]() -> std::string {
      if (!lock->take()) return "held by another";
      RunFolder::remove_unfinished(folder);
      return "taken";
    };
    if (comm::from_first_rank(communicator, "locking the run's folder", take) == "taken") return lock;
    agreement.check();
    std::this_thread::sleep_for(between);
  }
}

}  // namespace capstan::observe
