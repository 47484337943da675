#pragma once
#include <capstan/base/export.h>
#include <capstan/layout/footprint.h>
#include <capstan/layout/source.h>
#include <capstan/nn/model.h>
#include <capstan/strategy/strategy.h>
#include <capstan/strategy/unit_hooks.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shard/options.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// A box of a parameter as this rank stores it.
struct StoredBox {
  const layout::Param* record = nullptr;
  layout::Box box;
  at::Tensor value;                  ///< [box.numel()] master dtype
  bool writes_to_checkpoint = true;  ///< this rank does, of those that hold this copy
  int copy = 0;                      ///< position on the record's local axes, along which values differ
};

/// A weight as the model computes with it, which a rank keeps between steps besides its masters; or the bytes in which
/// a codec keeps it, read as numbers.
struct ComputeCopy {
  const nn::Weight* weight = nullptr;
  std::vector<layout::Box> boxes;  ///< by record
  at::Tensor value;                ///< on the run's device
  int copy = 0;                    ///< position on the records' local axes
};

/// Time of updates in host memory on this rank, summed over the run.
struct HostUpdateTimes {
  std::int64_t updates = 0;
  std::int64_t elements = 0;  ///< updated in each, padding included
  double rule_s = 0;          ///< in the optimizer's rule, which also casts the parameters if fused
  double send_s = 0;          ///< casting parameters and queueing their copies to the device
  double wait_s = 0;          ///< waiting for gradients from the device
  double total_s = 0;         ///< from the norm to the last bucket
};

/// A trained weight, and whether backward has left a gradient of it on this rank that a step's reduction took along.
struct Reached {
  const nn::Weight* weight = nullptr;
  std::string bucket;  ///< the units that are moved together, its own among them
  bool reached = false;
};

/// Moves parameters, gradients and optimizer state between the ranks. Every run has one: without a data strategy the
/// policy replicates everything. All calls come from the training thread (hooks also from backward's thread, which
/// never runs at the same time).
class Engine {
 public:
  /// Sets the records' role layouts and allocates parameters and gradients. `units` must outlive the engine.
  Engine(EngineOptions options, const std::vector<nn::Unit*>& units, const GroupOf& group_of);
  ~Engine();

  /// Fills this rank's boxes, unit by unit; calls `progress` with (done, all) parameters. Under sync_module_states the
  /// first rank's values are used; returns the records of which this rank had others.
  std::vector<std::string> fill(layout::Source& source,
                                const std::function<void(std::int64_t, std::int64_t)>& progress = {});
  /// The same from a checkpoint: each rank uses its own values, whatever sync_module_states says.
  void resume(layout::Source& source, const std::function<void(std::int64_t, std::int64_t)>& progress = {});
  /// Gathers, releases and reduces around unit `index`.
  std::unique_ptr<strategy::UnitHooks> hooks(std::size_t index);

  /// Says which micro-step of the step the next forward and backward belong to.
  void begin_micro_step(std::int64_t index);
  /// The micro-step's forward and backward read and write the same memory of this rank in every step, and nothing else:
  /// it could be recorded as a device graph.
  bool is_local(std::int64_t micro_step) const;
  /// The current stream waits for all sums, and no later call does: no event of what came before a recording is used in
  /// it.
  void join();
  /// Forgets the gradients that a backward has left for reductions that never came.
  void drop_gradients();
  /// Sum of squares of each trainable weight's gradient, of the elements that this rank counts: [weights] float64
  /// on the device, in weight order. Call after the step's last backward.
  at::Tensor squared_grad_norms();
  /// What became of each trained weight's gradients so far, in weight order.
  std::vector<Reached> reached() const;
  /// The weights' names in the order of squared_grad_norms().
  std::vector<std::string> trainable_names() const;
  /// Calls the rule with all slices of trainable weights, then `after`, then publishes the parameters. Where masters
  /// are in host memory the rule may still run, on another thread, when this returns: `rule` must live on.
  void update(strategy::OptimizerRule& rule, const strategy::Update& update, const std::function<void()>& after = {});
  /// Waits for an update that still runs. Throws what the rule threw.
  void finish_update();
  /// Zeros if nothing is offloaded. Waits for an update that still runs.
  HostUpdateTimes host_update_times();
  /// This rank's boxes of trainable records with views of masters and the rule's `states`; for StepHooks. No update may
  /// be running.
  std::vector<strategy::StepPart> step_parts(std::size_t states);
  /// Calls `write`, which may write the masters of trainable records, then publishes the parameters. Waits for an
  /// update that still runs.
  void write_masters(const std::function<void()>& write);

  /// This rank's boxes of all parameters but those that a codec keeps: views of the masters.
  std::vector<StoredBox> stored_boxes();
  /// Each of the rule's `states`, as this rank's boxes of trainable records: views of the current state, zero before
  /// the first update. Waits for an update that still runs.
  std::vector<std::vector<StoredBox>> state_boxes(std::size_t states);
  /// What this rank keeps of compute copies; those that an upload from host memory may be writing are left out. Valid
  /// once a step has gathered them.
  std::vector<ComputeCopy> compute_copies();
  /// This rank's boxes of the summed gradients, valid after the last backward of a step.
  std::vector<StoredBox> gradient_boxes();
  /// The memory that the engine allocates on this rank, from the same sizes. `states` as the rule says.
  std::vector<layout::Footprint> footprint(std::size_t states) const;

  /// What the engine's tensors take now, under the names of footprint(): once the first update has ended, or in it
  /// from its thread. Not autograd's, which are activations and gradients at work.
  std::vector<layout::Footprint> held() const;

  std::int64_t parameters() const;
  std::int64_t trainable_parameters() const;

  struct Parts;

 private:
  std::unique_ptr<Parts> parts_;
};

}  // namespace shard
CAPSTAN_END_NAMESPACE
