#include "job/resume.h"

#include <capstan/base/text.h>

#include <algorithm>

#include "job/assemble.h"
#include "resume/door.h"

namespace capstan::job {

namespace fs = std::filesystem;

fs::path checkpoint_folder(const fs::path& run_folder) { return run_folder / "checkpoints"; }

fs::path own_run_folder(const Job& job) { return fs::path(job.config.run->dir) / job.config.name; }

bool judge_resume(const Job& job, Diagnostics& diagnostics) {
  const auto& options = *job.config.checkpoint;
  if (options.resume == "none" && options.accept.empty()) return false;
  const auto& library = resume::door();
  const auto resume = library.find(job, checkpoint::Depth::structure, nullptr);
  library.check_accepted(job, resume.reader.get(), diagnostics);
  if (!resume.reader) return false;
  library.check(job, *resume.reader, job::pointers(job.model->units), diagnostics);
  return true;
}

bool is_accepted(const setup::CheckpointOptions& options, const std::string& name) {
  return std::any_of(options.accept.begin(), options.accept.end(),
                     [&](const std::string& accepted) { return name == accepted || name.starts_with(accepted + "."); });
}

std::string saved_name(const std::string& kind, const std::string& record, int copy) {
  return (copy > 0 ? cat("copies/", copy, "/") : "") + cat(kind, "/", record);
}

}  // namespace capstan::job
