#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "job/assemble.h"
#include "job/frozen_models.h"
#include "predict/dry_run.h"
#include "predict/memory_counter.h"
#include "predict/meta_executor.h"
#include "predict/step_work.h"
#include "shard/gather_protocol.h"
#include "step/passes.h"
#include "step/wrap_unit.h"

CAPSTAN_BEGIN_NAMESPACE
namespace predict {

/// Units as an engine gathers them, on the meta device.
class GatheredUnits {
 public:
  /// `gather` is told how many bytes more, or fewer, are gathered. Gathers are counted in `*gathers`, while it is
  /// there.
  GatheredUnits(const std::vector<nn::Unit*>& units, const DryRunOf& what, const shard::EngineOptions& options,
                std::function<void(std::int64_t)> gather, plan::Transfers* const& gathers);
  ~GatheredUnits();
  GatheredUnits(const GatheredUnits&) = delete;
  GatheredUnits& operator=(const GatheredUnits&) = delete;
  shard::GatherProtocol& protocol() { return *protocol_; }
  /// As after an update.
  void gather_again();

 private:
  class Executor;
  shard::ShardPlan plan_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<shard::GatherProtocol> protocol_;
};

/// A model on the meta device, those that the objective compares it with, and what their units allocate and their
/// engines gather.
class WatchedModel {
 public:
  explicit WatchedModel(const DryRunOf& what);
  ~WatchedModel();
  WatchedModel(const WatchedModel&) = delete;
  WatchedModel& operator=(const WatchedModel&) = delete;
  step::UnitRunner& runner() { return *runner_; }
  const job::AssembledModel& model() const { return *model_; }
  shard::GatherProtocol& protocol() { return units_->protocol(); }
  void gather_again() { units_->gather_again(); }
  step::Passes& passes() { return *passes_; }
  /// null: no longer.
  void count_gathers_into(plan::Transfers* gathers) { gathers_ = gathers; }
  /// Bytes of the tensors that the work has made and not freed; while peak_of() runs.
  std::int64_t held() const { return memory_->now - gathered_; }
  /// The most memory that this work takes.
  AtPeak peak_of(const std::function<void()>& work);

 private:
  struct Other;
  void gather(std::int64_t bytes);
  void compare_with(const DryRunOf& what);

  plan::Transfers* gathers_ = nullptr;
  job::Strategies strategies_;
  std::shared_ptr<const job::AssembledModel> model_;
  std::unique_ptr<GatheredUnits> units_;
  std::string at_;  // the unit at work
  std::unique_ptr<step::UnitRunner> runner_;
  std::vector<std::unique_ptr<Other>> others_;
  std::optional<step::Passes> passes_;
  MemoryCount* memory_ = nullptr;
  std::int64_t gathered_ = 0;
};

}  // namespace predict
CAPSTAN_END_NAMESPACE
