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
#include "job/resume.h"
#include "step/session.h"
#include "step/updates.h"
#include "train/observers.h"
#include "train/run_folder.h"

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// What a run's checkpoints need to know of its surroundings.
struct SaveSetting {
  const job::Resume* resume = nullptr;  ///< what the run resumes from; null: it starts
  std::string attempt = "0";            ///< ends the names of temporary folders: "<job>.<restart>"
  checkpoint::AtPoint at_point = {};    ///< for crash tests
};

/// The boundary between two steps.
struct Boundary {
  std::int64_t steps_done = 0;
  bool clock = false;                                 ///< the ranks agree that every_minutes have passed
  std::optional<monitor::EvalEnded> evaluation = {};  ///< made here
};

/// The meta of a checkpoint after `steps_done` steps; of its sections only what the weights alone need.
checkpoint::Meta meta_of(const job::Job& job, std::int64_t steps_done);

/// The sections of a checkpoint: what of the run's state is no tensor, and what a run that resumes must have alike.
std::map<std::string, std::string> sections_of(const step::Session& session, const step::Updates& updates,
                                               const Statistics& statistics, std::int64_t steps_done);

/// Gives optimizer, strategies and updates back what a checkpoint has of them, and returns the run's statistics. Rank 0
/// says in the log what is not as it was: another mesh, another schedule.
Statistics resume_from(checkpoint::Reader& reader, step::Session& session, step::Updates& updates);

/// A run's checkpoints: when they are due, what they hold, which is the best; and the final weights. All ranks call it
/// alike. Observers are told of a checkpoint once it is committed.
class CheckpointManager {
 public:
  /// Makes a group over the world where checkpoints are saved. `folder`: the run's. References must outlive it.
  CheckpointManager(const step::Session& session, const std::filesystem::path& folder, const step::Updates& updates,
                    Observers& observers, const SaveSetting& setting);

  /// Allocates the memory for copies of all that is there now: strategies' own tensors too, once they have begun.
  void reserve();
  /// Saving begins in a run that saves nothing by its options, because somebody interrupts it, if there is room for all
  /// ranks' parts where the run's folder is; else rank 0 says why not. A collective.
  void begin_if_room();
  bool on() const { return writer_ != nullptr; }
  /// every_minutes have passed on this rank since the last save.
  bool clock_asks() const;
  /// How long the next save may take, seconds: by the last one, else by what there is to write. 0: nothing is saved.
  double needs_s() const;
  /// Does something ask for a save here? What is evaluated better than all before is the best from now on.
  bool wants(const Boundary& boundary);
  /// Waits for the save before, and starts this one; without checkpoint.asynchronous waits for this one too.
  void save(const Boundary& boundary, const Statistics& statistics);
  /// Called before each optimizer update: what is being saved must have been copied.
  void before_update();
  /// Is this the state that was saved last?
  bool is_saved(std::int64_t steps_done) const { return last_step_ == steps_done; }
  /// Tells observers of a save that has been committed since the last call.
  void poll();
  /// The same after the save that is under way.
  void wait();
  /// The run's final weights, one copy of each, as <run folder>/weights; returns that folder. They are the best
  /// checkpoint's where checkpoint.final_weights says so. Nothing is saved afterwards. Collective over the world.
  std::filesystem::path save_weights(std::int64_t steps_done);

  /// Nothing where none is saved.
  std::optional<SaveTotals> summary() const;
  const std::optional<checkpoint::Best>& best() const { return totals_.best; }

 private:
  bool due(const Boundary& boundary) const;
  void find_best();
  bool judge(const Boundary& boundary);
  void open(bool asynchronous);
  void fill_from_best(std::vector<checkpoint::TensorBox>& boxes);
  void publish(const std::optional<checkpoint::Saved>& saved);

  using Clock = std::chrono::steady_clock;
  const step::Session& session_;
  const setup::CheckpointOptions& options_;
  std::filesystem::path run_folder_;
  const step::Updates& updates_;
  Observers& observers_;
  SaveSetting setting_;
  std::unique_ptr<checkpoint::Writer> writer_;
  Clock::time_point last_time_ = Clock::now();
  std::int64_t last_step_ = -1;
  double prepared_s_ = 0;  ///< what the last save took before its copies began
  SaveTotals totals_;
};

}  // namespace train
CAPSTAN_END_NAMESPACE
