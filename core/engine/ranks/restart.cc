#include "ranks/restart.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/log.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/config/run_name.h>

#include <optional>
#include <tuple>

#include "checkpoint/checkpoint.h"
#include "job/resume.h"

namespace capstan::ranks {
namespace {

namespace fs = std::filesystem;

constexpr const char* note = "slurm-job";

// "4711", or "4711_3" of an array: stays the same when a job is requeued.
std::string job_name(const launch::Environment& env) {
  if (const auto array = env("SLURM_ARRAY_JOB_ID")) return cat(*array, "_", env("SLURM_ARRAY_TASK_ID").value_or(""));
  return env("SLURM_JOB_ID").value_or("");
}

/// Which of a job's commands began a run. A job's script may hold several, and has the same ones when it starts again.
struct Beginning {
  std::string job;
  std::string step;     ///< SLURM's number of it; a restarted job counts from 0 again
  std::string command;  ///< configuration and overrides, each as JSON writes it
};

Beginning beginning_of(const launch::Environment& env, const launch::RunArguments& command) {
  auto words = Json::array({fs::absolute(command.config).lexically_normal().string()});
  for (const auto& override : command.overrides) words.push_back(override);
  return {job_name(env), env("SLURM_STEP_ID").value_or("none"), words.dump()};
}

std::vector<std::string> noted_lines(const fs::path& run_folder) {
  const auto file = run_folder / note;
  if (!is_file(file)) return {};
  return split(trim(read_file(file)), '\n');
}

/// A run's folder that this job began, and how well it fits.
struct Found {
  fs::path folder;
  bool same_command = false, same_step = false;

  // The step tells runs of one command apart. Where several fit equally, the last one counts: the job was requeued
  // before the others could save.
  auto rank() const {
    const auto name = folder.filename().string();
    return std::tuple(same_command, same_step, name.size(), name);
  }
};

// The one of <dir>/<name>, <name>-2, … that this command began; else any that this job began, which is then another's.
Found folder_of(const Beginning& mine, const fs::path& dir, const std::string& name) {
  Found found;
  std::optional<FileError> unreadable;
  for (const auto& path : entries_if_there(dir)) {
    const auto other = path.filename().string();
    const bool numbered =
        other.starts_with(name + "-") && other.find_first_not_of("0123456789", name.size() + 1) == std::string::npos;
    if (other != name && !numbered) continue;
    std::vector<std::string> lines;
    try {
      lines = noted_lines(path);
    } catch (const FileError& error) {
      unreadable = error;
    }
    if (lines.size() != 3 || lines[0] != mine.job) continue;
    const Found one{path, lines[2] == mine.command, lines[1] == "step " + mine.step};
    if (found.folder.empty() || found.rank() < one.rank()) found = one;
  }
  // The folder that cannot be read may be this run's: a new run would start from the beginning.
  if (unreadable && !found.same_command) {
    unreadable->add_context("looking for the run that this job began before it was queued again");
    throw FileError(*unreadable);
  }
  return found;
}

// As a shell reads it back.
std::string shell_word(const std::string& word) {
  constexpr const char* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=:,@%+-";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace

std::string resume_command(const std::vector<std::string>& command_line, const fs::path& run_folder) {
  std::vector<std::string> words;
  for (const auto& word : command_line) {
    if (!word.starts_with("run.name=") && !word.starts_with("checkpoint.resume=")) words.push_back(shell_word(word));
  }
  words.push_back(shell_word(cat("run.name=", config::value_text(run_folder.filename().string()))));
  words.emplace_back("checkpoint.resume=auto");
  return join(words, " ");
}

void note_job(const launch::Environment& env, const launch::RunArguments& command, const fs::path& run_folder) {
  const auto mine = beginning_of(env, command);
  if (!mine.job.empty()) write_file(run_folder / note, cat(mine.job, "\nstep ", mine.step, "\n", mine.command, "\n"));
}

std::vector<std::string> find_restarted(const launch::Environment& env, const setup::RunOptions& run,
                                        const setup::CheckpointOptions& checkpoint,
                                        const launch::RunArguments& command) {
  const auto mine = beginning_of(env, command);
  if (mine.job.empty() || env("SLURM_RESTART_COUNT").value_or("0") == "0" || !checkpoint.saves()) return {};
  const auto found = folder_of(mine, run.dir, run.name.value_or(config::name_of_run(command.config)));
  if (found.folder.empty()) return {};
  if (!found.same_command) {
    log::warning(cat("the job has started again, and has left no run of this very command: a new one begins (",
                     found.folder.string(), " was begun with other overrides)"));
    return {};
  }
  const bool elsewhere = checkpoint.resume != "none" && checkpoint.resume != "auto";
  if (elsewhere && checkpoint::committed(job::checkpoint_folder(found.folder)).empty()) return {};
  return {cat(R"(run.name=")", found.folder.filename().string(), R"(")"), "checkpoint.resume=auto"};
}

}  // namespace capstan::ranks
