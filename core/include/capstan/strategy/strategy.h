#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/comm/communicator.h>
#include <capstan/layout/file_tensor.h>
#include <capstan/layout/footprint.h>
#include <capstan/layout/mesh.h>
#include <capstan/layout/source.h>
#include <capstan/nn/model.h>
#include <capstan/strategy/claims.h>
#include <capstan/strategy/optimizer_rule.h>
#include <capstan/strategy/shard_policy.h>
#include <capstan/strategy/step_hooks.h>
#include <capstan/strategy/unit_hooks.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace strategy {

/// What is known of the run before anything is allocated.
struct Facts {
  layout::Mesh mesh;
  int rank = 0;
  nn::ModelFacts model;
  std::int64_t micro_batch = 1;
  std::int64_t accumulation = 1;
  std::int64_t sequence_length = 0;  ///< longest that the data gives; known in footprint() only
  std::string precision;
  std::string device;  ///< "cpu", "cuda"
  std::int64_t ranks_per_node = 1;
  std::int64_t trainable_parameters = 0;  ///< of the whole model behind structure(); known in footprint() only
};

/// What a strategy may use while it places a unit on the mesh.
struct Placement {
  layout::Mesh mesh;
  int rank = 0;
  /// The group of the ranks that share all other coordinates; made on first use, the same on all ranks.
  std::function<std::shared_ptr<comm::Group>(const std::vector<layout::Axis>&)> group;
};

/// A strategy plugin acts in fixed phases, whatever the order in the file; each method does nothing by default.
///
///   mesh, claim, check   before anything is allocated, also in `capstan check`
///   structure            on logical shapes: may change the model's layers (adapters)
///   place                sets records' compute layouts, fills layers' ports, marks gradients local; unit by unit
///   shard                sets how parameters, gradients and optimizer state are cut along the data axes
///   wrap, recompute      after parameters are there: hooks around a unit; placed inside the shard engine's own
///   step, optimizer_rule the seats that were claimed, and what happens after each step
///
/// One object goes with one model: structure() is called once, and place(), wrap() and the others see the units that it
/// saw, which outlive the object's use. What it notes about units stays true, and nothing has to be undone. Where core
/// needs another model (`check` runs a micro-step of one on the meta device), it makes other objects from the same
/// options.
///
/// All on the training thread. What throws ends the run on all ranks, with the plugin's name and the phase.
class Strategy {
 public:
  virtual ~Strategy();
  virtual void mesh(layout::MeshSpec&) {}
  virtual void claim(Claims&) const {}
  virtual void check(const Facts&, Diagnostics&) const {}
  virtual void structure(std::vector<std::unique_ptr<nn::Unit>>&) {}
  /// Lines for people on what structure() did, and on options that do nothing here; printed with the model's
  /// summary.
  virtual std::vector<std::string> notes() const { return {}; }
  /// Where values of records that structure() added come from; null, or for a record that the source does not have:
  /// their initialisation. `files` says where the model's own stand in its published files. Asked behind structure(),
  /// by `check` too: what is wrong with the source is thrown here, as Error, and not first when it is read.
  virtual std::shared_ptr<layout::Source> values(const layout::FileMap& /*files*/) { return nullptr; }
  virtual void place(nn::Unit&, const Placement&) {}
  virtual void shard(ShardPolicy&) {}
  virtual std::unique_ptr<UnitHooks> wrap(nn::Unit&) { return nullptr; }
  /// Should the runner recompute this unit in backward?
  virtual bool recompute(const nn::Unit&, std::size_t /*index*/) { return false; }
  /// Once a run. Null: nothing to do each step.
  virtual std::unique_ptr<StepHooks> step() { return nullptr; }
  /// The rule instead of AdamW; asked of the strategy that claims optimizer_rule_seat.
  virtual std::unique_ptr<OptimizerRule> optimizer_rule() { return nullptr; }
  /// Memory that this strategy itself will allocate on a rank: added to the prediction that `check` prints.
  virtual std::vector<layout::Footprint> footprint(const Facts&) const { return {}; }
};

}  // namespace strategy
CAPSTAN_END_NAMESPACE
