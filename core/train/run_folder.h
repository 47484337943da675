#pragma once
#include <capstan/base/export.h>
#include <capstan/monitor/monitor.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "config/to_toml.h"
#include "shard/engine.h"
#include "train/evaluate.h"
#include "train/memory.h"
#include "train/saving.h"
#include "train/statistics.h"

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
  /// The same, but <dir>/<name> itself, whether it is there or not: for runs that go on in their own folder.
  static std::filesystem::path reuse(const std::string& dir, const std::string& name);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path log_file() const;
  void write_config(const std::vector<config::ResolvedTable>& tables) const;
  /// The run goes on behind so many steps: what metrics.jsonl has of later ones is dropped, and a last line that a
  /// crash cut off.
  void go_on_behind(std::int64_t steps_done);
  void step(const monitor::StepEnded& step);
  void evaluation(const monitor::EvalEnded& evaluation);
  void checkpoint(const monitor::CheckpointSaved& saved);
  /// predictions-<split>.json: {id: text}, as SQuAD's official script reads it.
  void predictions(const std::string& split, const std::vector<Answer>& answers) const;
  void summary(const monitor::RunStarted& start, const monitor::RunEnded& end, const Statistics& statistics,
               const std::vector<PeakMemory>& memory, const shard::HostUpdateTimes& host_updates, const Saving& saving,
               const std::vector<Answer>& answers) const;

 private:
  void open_metrics();
  std::filesystem::path path_;
  int rank_;
  std::ofstream metrics_;
};

}  // namespace train
CAPSTAN_END_NAMESPACE
