#pragma once
#include <capstan/base/export.h>
#include <capstan/monitor/monitor.h>

#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace record {

/// Whoever is told what a run does, in the order in which they were added: the run's statistics, its folder, monitors.
class Observers {
 public:
  /// `observer` outlives this object. `plugin`: the name that its errors get; empty for core's own.
  void add(std::string plugin, monitor::Monitor& observer) { all_.push_back({std::move(plugin), &observer}); }
  void run_started(const monitor::RunStarted& event);
  void step_ended(const monitor::StepEnded& event);
  void eval_ended(const monitor::EvalEnded& event);
  void checkpoint_saved(const monitor::CheckpointSaved& event);
  void run_ended(const monitor::RunEnded& event);
  /// What they returned for the last step.
  const monitor::Values& values() const { return values_; }

 private:
  struct Observer {
    std::string plugin;
    monitor::Monitor* object;
  };
  template <class Call>
  void each(const char* phase, const Call& call);

  std::vector<Observer> all_;
  monitor::Values values_;
};

}  // namespace record
CAPSTAN_END_NAMESPACE
