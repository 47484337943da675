#pragma once
#include <capstan/base/export.h>
#include <capstan/monitor/monitor.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "setup/job.h"
#include "train/evaluate.h"
#include "train/memory.h"

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// What a run leaves for people and programs: config.toml, metrics.jsonl, summary.json, a log per rank, weights/.
/// Only rank 0 writes the shared files.
class RunFolder {
 public:
  /// `path` exists. Opens metrics.jsonl for rank 0.
  RunFolder(std::filesystem::path path, int rank);
  /// Chooses and makes a folder for a run of this name: <dir>/<name>, or <name>-2, -3, … when there is one. Throws
  /// Error that names the folder when it can't be made.
  static std::filesystem::path make(const std::string& dir, const std::string& name);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path log_file() const;
  void write_config(const setup::Job& job) const;
  void step(const monitor::StepEnded& step);
  void evaluation(const monitor::EvalEnded& evaluation);
  void summary(const monitor::RunStarted& start, const monitor::RunEnded& end, double first_loss, double last_loss,
               const std::vector<PeakMemory>& memory, const shard::HostUpdateTimes& host_updates,
               const std::vector<monitor::EvalEnded>& evaluations, const std::vector<Answer>& answers) const;

 private:
  std::filesystem::path path_;
  int rank_;
  std::ofstream metrics_;
};

}  // namespace train
CAPSTAN_END_NAMESPACE
