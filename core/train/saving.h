#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/communicator.h>
#include <capstan/monitor/monitor.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "data/batches.h"
#include "session/resume.h"
#include "setup/options.h"
#include "train/statistics.h"
#include "train/updates.h"

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// What a run's checkpoints need to know of its surroundings.
struct SaveSetting {
  const session::Resume* resume = nullptr;  ///< what the run goes on from; null: it starts
  std::string attempt = "0";                ///< ends the names of temporary folders: "<job>.<restart>"
  checkpoint::AtPoint at_point = {};        ///< for crash tests
};

/// What the checkpoints of this process took.
struct SaveTotals {
  std::int64_t saves = 0;
  std::int64_t bytes = 0;   ///< of all ranks
  double stall_s = 0;       ///< how long training waited
  double most_stall_s = 0;  ///< … for one of them
  double write_s = 0;
  std::string last;  ///< the newest that is committed
};

/// The best that was evaluated and saved.
struct Best {
  std::int64_t step = 0;
  double value = 0;
  std::string path;
};

/// The boundary between two steps.
struct Boundary {
  std::int64_t steps_done = 0;
  bool clock = false;                              ///< the ranks agree that every_minutes have passed
  const monitor::EvalEnded* evaluation = nullptr;  ///< made here
};

/// What a run's checkpoints are made from, and what takes their state back.
struct SavedRun {
  setup::CheckpointOptions options;
  data::Plan plan;
  int rank = 0;
  bool pinned = true;                           ///< copies on their way to a file are in pinned memory
  checkpoint::Meta meta;                        ///< what is the same in all of them
  std::map<std::string, std::string> sections;  ///< the same: schedule, adapters
  std::function<std::string(std::int64_t steps_done)> cursor;
  std::function<std::vector<checkpoint::TensorBox>()> boxes;    ///< of this rank
  std::function<std::vector<checkpoint::TensorBox>()> weights;  ///< … the parameters alone, one copy of each
  /// Gives optimizer and strategies back what a checkpoint has of them; returns what is not as it was, in words.
  std::function<std::vector<std::string>(checkpoint::Reader&)> restore;
};

/// The meta of a checkpoint behind so many steps.
checkpoint::Meta meta_of(const SavedRun& run, std::int64_t steps_done);

/// Gives the run's state that is no tensor to a checkpoint's sections, and back.
std::map<std::string, std::string> sections_of(const SavedRun& run, const Updates& updates,
                                               const Statistics& statistics, std::int64_t steps_done);

/// Gives optimizer, strategies and updates back what a checkpoint has of them, and returns the run's statistics. Rank 0
/// says in the log what is not as it was: another mesh, another schedule.
Statistics resume_from(checkpoint::Reader& reader, const SavedRun& run, Updates& updates);

/// A run's checkpoints: when they are due, what they hold, which is the best. All ranks call it alike, but for poll().
class Saving {
 public:
  /// Makes a group over the world where checkpoints are saved.
  Saving(SavedRun run, const Updates& updates, comm::Communicator& communicator,
         const std::filesystem::path& run_folder, const SaveSetting& setting);

  const SavedRun& run() const { return run_; }

  bool on() const { return writer_ != nullptr; }
  /// every_minutes have passed on this rank since the last save.
  bool clock_asks() const;
  /// How long a save takes, by the last one; 0 when none was made.
  double needs_s() const { return writer_ ? writer_->last_duration_s() : 0; }
  /// Does something ask for a save here? What is evaluated better than all before is the best from now on.
  bool wants(const Boundary& boundary);
  /// Waits for the save before, whose event it returns if nobody was told it yet, and starts this one.
  std::optional<monitor::CheckpointSaved> save(const Boundary& boundary, const Statistics& statistics);
  /// Before each optimizer update: what is being saved must have been copied.
  void before_update();
  /// Is this the state that was saved last?
  bool is_saved(std::int64_t steps_done) const { return last_step_ == steps_done; }
  /// A save that has been committed since the last call.
  std::optional<monitor::CheckpointSaved> poll();
  /// The same behind the save that is under way.
  std::optional<monitor::CheckpointSaved> wait();

  const SaveTotals& totals() const { return totals_; }
  const std::optional<Best>& best() const { return best_; }

 private:
  bool due(const Boundary& boundary) const;
  bool judge(const Boundary& boundary);
  std::optional<monitor::CheckpointSaved> count(const std::optional<checkpoint::Saved>& saved);

  using Clock = std::chrono::steady_clock;
  SavedRun run_;
  const Updates& updates_;
  std::filesystem::path folder_;
  std::unique_ptr<checkpoint::Writer> writer_;
  Clock::time_point last_time_ = Clock::now();
  std::int64_t last_step_ = -1;
  double prepared_s_ = 0;  ///< what the last save took before its copies began
  SaveTotals totals_;
  std::optional<Best> best_;
};

/// Writes the parameters, one copy of each, to this folder, as a checkpoint that holds nothing else. A collective over
/// the world.
void save_weights(const SavedRun& run, const std::filesystem::path& folder, comm::Group& world, std::int64_t steps_done,
                  const std::string& attempt);

}  // namespace train
CAPSTAN_END_NAMESPACE
