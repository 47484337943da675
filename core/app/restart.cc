#include "app/restart.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>

#include <utility>

#include "checkpoint/checkpoint.h"
#include "setup/resume.h"

namespace capstan::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* note = "slurm-job";

// "4711", or "4711_3" of an array: what stays the same when a job is queued again.
std::string job_name(const Environment& env) {
  if (const auto array = env("SLURM_ARRAY_JOB_ID")) return cat(*array, "_", env("SLURM_ARRAY_TASK_ID").value_or(""));
  return env("SLURM_JOB_ID").value_or("");
}

bool noted(const fs::path& run_folder, const std::string& job) {
  const auto file = run_folder / note;
  std::error_code unreadable;
  return fs::is_regular_file(file, unreadable) && trim(read_file(file)) == job;
}

// Of <dir>/<name>, <name>-2, … the last one that this job made; several, if it was queued again before it could save.
fs::path folder_of(const std::string& job, const fs::path& dir, const std::string& name) {
  fs::path found;
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(dir, unreadable)) {
    const auto other = entry.path().filename().string();
    const bool numbered =
        other.starts_with(name + "-") && other.find_first_not_of("0123456789", name.size() + 1) == std::string::npos;
    if ((other != name && !numbered) || !noted(entry.path(), job)) continue;
    const auto before = found.filename().string();
    if (std::pair(before.size(), before) < std::pair(other.size(), other)) found = entry.path();
  }
  return found;
}

}  // namespace

void note_job(const Environment& env, const fs::path& run_folder) {
  const auto job = job_name(env);
  if (!job.empty()) write_file(run_folder / note, job + "\n");
}

std::vector<std::string> find_restarted(const Environment& env, const setup::RunOptions& run,
                                        const setup::CheckpointOptions& checkpoint, const std::string& config) {
  const auto job = job_name(env);
  if (job.empty() || env("SLURM_RESTART_COUNT").value_or("0") == "0" || !checkpoint.saves()) return {};
  const auto folder = folder_of(job, run.dir, run.name.value_or(fs::path(config).stem().string()));
  if (folder.empty()) return {};
  const bool elsewhere = checkpoint.resume != "none" && checkpoint.resume != "auto";
  if (elsewhere && checkpoint::committed(setup::checkpoint_folder(folder)).empty()) return {};
  return {cat(R"(run.name=")", folder.filename().string(), R"(")"), "checkpoint.resume=auto"};
}

}  // namespace capstan::app
