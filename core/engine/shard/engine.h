#pragma once
#include <capstan/base/export.h>
#include <capstan/layout/footprint.h>
#include <capstan/layout/source.h>
#include <capstan/nn/model.h>
#include <capstan/strategy/strategy.h>
#include <capstan/strategy/unit_hooks.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/in_flight.h"
#include "shard/boxes.h"
#include "shard/bucket_parameters.h"
#include "shard/executor.h"
#include "shard/gather_protocol.h"
#include "shard/gather_scales.h"
#include "shard/host_update.h"
#include "shard/reducer.h"
#include "strategy/joint_updates.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// A box of a parameter as this rank stores it.
struct StoredBox {
  const layout::Param* record = nullptr;
  layout::Box box;
  at::Tensor value;                  ///< [box.numel()] master dtype
  bool writes_to_checkpoint = true;  ///< this one does among the ranks that hold this copy
  int copy = 0;                      ///< position on the record's local axes, along which values differ
};

/// The optimizer's states of a record's box on this rank.
struct StateOfRecord {
  const OwnedSlice* slice = nullptr;
  StoredBox stored;                ///< without a value
  layout::Layout layout;           ///< the layout of all ranks' boxes of the record
  std::vector<at::Tensor> states;  ///< by slice->states: [box.numel()], or a value for each of its blocks
};

/// A weight as the model computes with it, which a rank keeps between steps besides its masters; or the bytes in which
/// a codec keeps it, read as numbers.
struct ComputeCopy {
  const nn::Weight* weight = nullptr;
  std::vector<layout::Box> boxes;  ///< by record
  at::Tensor value;                ///< on the run's device
  int copy = 0;                    ///< position on the records' local axes
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
class Engine : private Executor {
 public:
  /// Sets the records' role layouts and allocates parameters and gradients. `units` must outlive the engine.
  Engine(EngineOptions options, const std::vector<nn::Unit*>& units, const GroupOf& group_of);

  /// Fills this rank's boxes, unit by unit; calls `progress` with (done, all) parameters. Under sync_module_states the
  /// first rank's values are used; returns the records of which this rank had others.
  std::vector<std::string> fill(layout::Source& source,
                                const std::function<void(std::int64_t, std::int64_t)>& progress = {});
  /// The same from a checkpoint: each rank uses its own values, whatever sync_module_states says.
  void resume(layout::Source& source, const std::function<void(std::int64_t, std::int64_t)>& progress = {});
  /// Gathers, releases and reduces around unit `index`.
  std::unique_ptr<strategy::UnitHooks> hooks(std::size_t index) { return protocol_.hooks(index); }

  /// Says which of the step's backwards comes next, from 0; without pipelines, which micro-step.
  void begin_backward(std::int64_t index);
  /// The next micro-step's forward and backward read and write the same memory of this rank in every step, but for sums
  /// over ranks: with these apart it could be recorded as a device graph.
  bool stays_in_place() const { return protocol_.stays_in_place(); }
  /// Gives sums over ranks to a recording, until what it returns is gone: autograd's thread does after leave_thread().
  std::shared_ptr<void> sum_apart(const ops::GraphRecorder::Apart& apart);
  void leave_thread() {
    shared_.apart([] {});
  }
  /// An evaluation's forward finds what it reads in this rank's memory.
  bool reads_locally() const { return protocol_.reads_locally(); }
  /// An evaluation, from here to where what it returns is gone: if there is room for it (EngineOptions::holds), each
  /// parameter is gathered by the first forward that uses it, and freed at the end. Several may overlap. No shard may
  /// change meanwhile.
  std::shared_ptr<void> hold() { return shared_.options.holds ? protocol_.hold() : nullptr; }
  /// The current stream waits for all sums, and no later call does: no event of what came before a recording is used in
  /// it.
  void join();
  /// Forgets the gradients that a backward has left for reductions that never came.
  void drop_gradients();
  /// Sum of squares of each trainable weight's gradient, over the elements that this rank counts: [weights] float64 on
  /// the device, in weight order. Call after the step's last backward.
  at::Tensor squared_grad_norms();
  /// What became of each trained weight's gradients so far, in weight order.
  std::vector<Reached> reached() const;
  /// The weights' names in the order of squared_grad_norms().
  std::vector<std::string> trainable_names() const;
  /// Calls the optimizer's rules with all slices of trainable weights, then `after`, then publishes the parameters.
  /// `lr` is the step's learning rate before groups' factors. Where masters are in host memory a rule may still run, on
  /// another thread, when this returns.
  void update(double lr, const optimizer::Update& update, const std::function<void()>& after = {});
  /// Waits for an update that still runs. Throws what the rule threw.
  void finish_update() { host_.wait_all(); }
  /// Zeros if nothing is offloaded. Waits for an update that still runs.
  HostUpdateTimes host_update_times();
  /// This rank's boxes of trainable records with views of masters and states; for StepHooks. No update may be running.
  std::vector<strategy::StepPart> step_parts();
  /// Calls `write`, which may write the masters of trainable records, then publishes the parameters. Waits for an
  /// update that still runs.
  void write_masters(const std::function<void()>& write);

  /// This rank's boxes of all parameters but those that a codec keeps: views of the masters.
  std::vector<StoredBox> stored_boxes();
  /// The optimizer's states of this rank's boxes of trainable records: views, zero before the first update. Waits for
  /// an update that still runs.
  std::vector<StateOfRecord> state_boxes();
  /// The states of joint updates. Waits as state_boxes() does.
  std::vector<strategy::KeptJointState> joint_states();
  /// What this rank keeps of compute copies; those that an upload from host memory may be writing are left out. Valid
  /// once a step has gathered them.
  std::vector<ComputeCopy> compute_copies();
  /// This rank's boxes of the summed gradients, valid after the last backward of a step.
  std::vector<StoredBox> gradient_boxes();
  /// The memory that the engine allocates on this rank, from the same sizes.
  std::vector<layout::Footprint> footprint() const;

  /// What the engine's tensors take now, under the names of footprint(): once the first update has ended, or in it
  /// from its thread. Not autograd's, which are activations and gradients at work.
  std::vector<layout::Footprint> held() const;

 private:
  /// A weight that is trained, by bucket and place in it.
  struct Trained {
    std::size_t bucket;
    std::size_t weight;
  };

  /// Squared norms of the blocks of gradients that this rank owns.
  struct Squares {
    at::Tensor sums;                  ///< [blocks]; undefined before the first
    at::Tensor weights;               ///< the number of the trained weight that each belongs to
    std::vector<std::int64_t> first;  ///< by bucket
  };

  // What GatherProtocol asks for.
  void prefetch(std::size_t bucket, bool keep) override { parameters_[bucket].prefetch(keep); }
  void acquire(std::size_t bucket) override { parameters_[bucket].acquire(); }
  void release(std::size_t bucket) override { parameters_[bucket].release(); }
  void reduce(std::size_t bucket, const Reduction& how) override;
  void bind(std::size_t bucket, bool looks_up) override { parameters_[bucket].full().bind(looks_up); }
  void add_rows(std::size_t bucket, const Reduction& how) override;

  const BucketPlan& plan(std::size_t bucket) const { return shared_.plan.buckets[bucket]; }
  const nn::Weight& weight(const Trained& trained) const {
    return *plan(trained.bucket).weights[trained.weight].weight;
  }
  void each_owned(std::size_t b, const std::function<void(std::size_t, const RecordShard&)>& visit) const;
  void sum_over_stages();
  void list_squares();
  void measure_offloaded(std::size_t b);
  at::Tensor gradient(std::size_t b, std::size_t w);
  void finish();
  optimizer::Slice device_slice(const OwnedSlice& owned, double lr, bool copies);
  void make_joint_updates(const GroupOf& group_of);
  void update_jointly(double lr, const optimizer::Update& update, bool copies);
  StateOfRecord state_of(const HeldBox& held);
  void publish(bool copied);

  Shared shared_;
  GatherProtocol protocol_;
  std::deque<BucketParameters> parameters_;  ///< by bucket
  std::deque<Reducer> reducers_;             ///< by bucket
  std::optional<GatherScales> scales_;
  HostUpdate host_;                                    ///< updates what is in host memory
  std::optional<strategy::JointUpdates> joint_;        ///< what ranks update together
  std::vector<Trained> trained_;                       ///< trained weights, in the buckets' order
  std::vector<std::shared_ptr<comm::Group>> holders_;  ///< sync_module_states: by bucket, ranks along its data axes
  Squares squares_;
  comm::InFlight in_flight_;  ///< reductions that are under way
};

}  // namespace shard
CAPSTAN_END_NAMESPACE
