#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/communicator.h>
#include <capstan/monitor/monitor.h>
#include <capstan/monitor/tracer.h>

#include <memory>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// All that are told what a run does, in the order in which they were added: its statistics, its folder, monitors.
/// A plugin that throws is told nothing more, and a warning says so: what only watches a run does not end it.
class Observers {
 public:
  /// `observer` outlives this object. `plugin`: the name that its errors get; empty for core's own.
  void add(std::string plugin, monitor::Monitor& observer) { all_.push_back({std::move(plugin), &observer}); }
  void run_started(const monitor::RunStarted& event);
  void step_ended(const monitor::StepEnded& event);
  void eval_ended(const monitor::EvalEnded& event);
  void checkpoint_saved(const monitor::CheckpointSaved& event);
  /// What all of them say of the run, one after the other.
  monitor::Summary summary(const monitor::RunEnded& event);
  void run_ended(const monitor::RunEnded& event);
  /// Nothing before run_started().
  void run_failed(const monitor::RunFailed& event);
  /// The tracers of those monitors that have one. Called after run_started().
  std::vector<std::shared_ptr<monitor::Tracer>> tracers();
  /// What they returned for the last step.
  const monitor::Values& values() const { return values_; }

 private:
  struct Observer {
    std::string plugin;
    monitor::Monitor* object;
    bool disabled = false;
  };
  template <class Call>
  void each(const char* phase, const Call& call);

  std::vector<Observer> all_;
  bool started_ = false;
  monitor::Values values_;
};

/// What all ranks' monitors say of the run: each number's mean over the ranks that have it, each text of the first rank
/// that has it, in the order of the first rank that names it. Collective over the world.
monitor::Summary exchange_summary(const monitor::Summary& mine, comm::Communicator& communicator);

}  // namespace train
CAPSTAN_END_NAMESPACE
