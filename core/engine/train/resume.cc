#include "train/resume.h"

#include <capstan/base/log.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <chrono>
#include <thread>

#include "comm/agree.h"
#include "resume/door.h"

namespace capstan::train {

namespace fs = std::filesystem;

namespace {

// "damaged-step-00000040": no search finds it, and retention does not count it.
void move_aside(const fs::path& checkpoint) {
  const auto name = "damaged-" + checkpoint.filename().string();
  auto target = checkpoint.parent_path() / name;
  for (int n = 2; is_there(target); ++n) target = checkpoint.parent_path() / cat(name, "-", n);
  std::error_code error;
  fs::rename(checkpoint, target, error);
  if (error) {
    throw Error(cat("cannot move the damaged checkpoint aside: ", error.message()), "move or remove it yourself",
                checkpoint.string());
  }
  log::warning(cat("moved to ", target.string()));
}

void report(const job::Resume& resume) {
  for (const auto& fault : resume.skipped) log::warning(cat("a checkpoint is not valid: ", fault.text()));
  if (resume.reader) {
    const auto text =
        cat("resuming from ", resume.reader->path().string(), ", after step ", resume.reader->meta().step);
    if (resume.skipped.empty()) {
      log::info(text);
    } else {
      log::warning("falling back: " + text);
    }
  } else if (!resume.skipped.empty()) {
    log::warning("no checkpoint of this run is valid: it starts from its beginning");
  }
}

}  // namespace

fs::path shared_run_folder(const setup::Configuration& config, comm::Communicator& communicator) {
  return comm::from_first_rank(communicator, "making the run's folder", [&] {
    const auto make = config.checkpoint->resume == "auto" ? &RunFolder::reuse : &RunFolder::make;
    return make(config.run->dir, config.name).string();
  });
}

std::unique_ptr<record::RunLock> hold_run_folder(const std::filesystem::path& folder, const std::string& job,
                                                 comm::Communicator& communicator,
                                                 const step::StopAgreement& agreement) {
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

job::Resume resume_run(const job::Job& job, comm::Communicator& communicator) {
  if (job.config.checkpoint->resume == "none") return {};
  const auto depth =
      job.config.checkpoint->verify == "hashes" ? checkpoint::Depth::hashes : checkpoint::Depth::structure;
  const auto group = comm::group_of_all(communicator, "checkpoint search");
  auto resume = resume::door().find(job, depth, group.get());
  comm::from_first_rank(communicator, "moving damaged checkpoints aside", [&] {
    report(resume);
    for (const auto& path : resume.newer) move_aside(path);
    return std::string();
  });
  return resume;
}

}  // namespace capstan::train
