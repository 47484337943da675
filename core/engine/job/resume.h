#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/comm/communicator.h>

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

/// Finds what checkpoint.resume means. Throws Error for a folder that is named and holds nothing valid, for what is
/// there and cannot be read, and for a run's own checkpoints that have vanished. With a group it is a collective: all
/// ranks find, or throw, the same.
Resume find_resume(const Job& job, checkpoint::Depth depth, comm::Group* group = nullptr);

/// Adds a fault for everything in which the job is not the one that was saved: records, what decides what is learned
/// (job/changes.h) and is not accepted, global batches, the length of the run. `units` are assembled.
void check_resume(const Job& job, const checkpoint::Reader& reader, const std::vector<nn::Unit*>& units,
                  Diagnostics& diagnostics);
/// All of it before anything is allocated, for `check`: hashes are not looked at. False: there is nothing to resume.
bool judge_resume(const Job& job, Diagnostics& diagnostics);

/// The section "cursor": where the data stands after `steps_done` steps, in samples, and what makes their order.
std::string cursor_section(const Job& job, std::int64_t steps_done);

/// What a checkpoint calls a record's copy on ranks that keep values of their own: the first has the plain name.
std::string saved_name(const std::string& kind, const std::string& record, int copy);

}  // namespace job
CAPSTAN_END_NAMESPACE
