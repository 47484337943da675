#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "comm/planned_group.h"
#include "job/topology.h"
#include "predict/watched_model.h"
#include "predict/work_counter.h"

namespace capstan::predict {

/// What a program's actions compute and move: of those that differ in their micro-batch the last one, and the gathers
/// of the first.
class ActionCounter {
 public:
  /// Both outlive it.
  ActionCounter(WatchedModel& model, const job::Topology& topology) : model_(model), topology_(topology) {}
  /// What is computed from now on is this action's.
  void begin(const strategy::Action& action);
  /// What was counted. A receive only starts a transfer: what it computes, the micro-batch's fields, is the forward's.
  std::vector<plan::ActionWork> take();

 private:
  void end();
  std::vector<plan::ActionWork>::iterator find(strategy::Action::Kind kind, int stage);
  void hear(const comm::PlannedCall& call);
  // What was computed since this was last asked.
  plan::Computing add_computed();

  WatchedModel& model_;
  const job::Topology& topology_;
  std::vector<plan::ActionWork> actions_;
  plan::MicroStepWork* now_ = nullptr;
  plan::Transfers waited_;                     // the action's, since add_computed()
  std::map<const void*, std::size_t> copies_;  // begun in the action: their places
  bool is_first_ = false;
  std::optional<comm::PlannedCalls> listening_;
  std::optional<WorkCounter> compute_;
};

}  // namespace capstan::predict
