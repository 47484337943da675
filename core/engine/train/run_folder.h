#pragma once
#include <capstan/base/export.h>
#include <capstan/monitor/monitor.h>

#include <capstan/base/line_file.h>
#include <capstan/record/checkpoints.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/to_toml.h"
#include "shard/engine.h"
#include "step/evaluate.h"
#include "train/memory.h"
#include "train/statistics.h"

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// What the checkpoints of this process took.
struct SaveTotals {
  std::int64_t saves = 0;
  std::int64_t bytes = 0;   ///< bytes of all ranks
  double stall_s = 0;       ///< how long training waited
  double most_stall_s = 0;  ///< … for one of them
  double write_s = 0;
  std::string last;                      ///< the newest that is committed
  std::optional<checkpoint::Best> best;  ///< the best one that was evaluated and saved
  std::int64_t weights_step = 0;         ///< after which step the final weights were so
};

/// What a run leaves for people and programs: config.toml, metrics.jsonl, summary.json, a log per rank, weights/.
/// Only rank 0 writes the shared files. What a full disk has no room for is kept in memory and written when it has;
/// finish() says what it never had room for.
class RunFolder : public monitor::Monitor {
 public:
  /// `path` exists. Opens metrics.jsonl for rank 0.
  RunFolder(std::filesystem::path path, int rank);
  /// Chooses and makes a folder for a run of this name: <dir>/<name>, or <name>-2, -3, … when there is one. Throws
  /// Error that names the folder when it can't be made.
  static std::filesystem::path make(const std::string& dir, const std::string& name);
  /// The same for any folder, without what a run has in it; `fix` is what the error says to do.
  static std::filesystem::path make_new(const std::filesystem::path& dir, const std::string& name, std::string fix);
  /// The same, but <dir>/<name> itself, whether it is there or not: for runs that resume in their own folder.
  static std::filesystem::path reuse(const std::string& dir, const std::string& name);
  /// Removes what processes that were killed have left half written in the folder and next to its checkpoints, such as
  /// latest.tmp4711. Called by the process that holds the folder, before it writes.
  static void remove_unfinished(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path log_file() const;
  void write_config(const std::vector<config::ResolvedTable>& tables) const;
  /// The run resumes after `steps_done` steps, which it has read from a checkpoint: what metrics.jsonl has of later
  /// ones is dropped, and a last line that a crash cut off; also the scores of answers to these splits' questions after
  /// that step, which the run gives again.
  void resume_after(std::int64_t steps_done, const std::vector<std::string>& answers_again = {});
  /// The run starts from its beginning: a metrics.jsonl of an earlier start steps aside, to metrics-1.jsonl or so.
  void start_over();
  monitor::Values step_ended(const monitor::StepEnded& step) override;
  void eval_ended(const monitor::EvalEnded& evaluation) override;
  void checkpoint_saved(const monitor::CheckpointSaved& saved) override;
  /// predictions-<split>.json: {id: text}, as SQuAD's official script reads it.
  void predictions(const std::string& split, const std::vector<execution::Answer>& answers);
  void write_summary(const monitor::RunStarted& start, const monitor::RunEnded& end, const Statistics& statistics,
                     const std::vector<PeakMemory>& memory, const shard::HostUpdateTimes& host_updates,
                     const std::optional<SaveTotals>& checkpoints, const std::vector<execution::Answer>& answers);
  /// Tries to write what is still held, for as long as `patience`. Returns in words what is missing of the run's
  /// results then; empty: nothing.
  std::string finish(std::chrono::milliseconds patience);

 private:
  void open_metrics();
  void report(const std::string& name, std::string text);
  std::filesystem::path path_;
  int rank_;
  LineFile metrics_;
  std::map<std::filesystem::path, std::string> unwritten_;  ///< reports for which there was no room yet
};

}  // namespace train
CAPSTAN_END_NAMESPACE
