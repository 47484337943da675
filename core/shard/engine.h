#pragma once
#include <capstan/base/export.h>
#include <capstan/layout/footprint.h>
#include <capstan/layout/mesh.h>
#include <capstan/layout/source.h>
#include <capstan/nn/model.h>
#include <capstan/strategy/strategy.h>
#include <capstan/strategy/unit_hooks.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shard/bucket.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// When gradients are summed over the data ranks under accumulation.
enum class ReduceWhen { micro_step, step };

struct EngineOptions {
  layout::Mesh mesh;
  int rank = 0;
  Precision precision;
  strategy::ShardPolicy policy;
  ReduceWhen reduce = ReduceWhen::step;
  std::int64_t accumulation = 1;  ///< micro-steps a step
};

/// Makes or finds the group of the ranks that differ from this one only on these axes.
using GroupOf = std::function<std::shared_ptr<comm::Group>(const std::vector<layout::Axis>&)>;

/// A box of a parameter as this rank stores it.
struct StoredBox {
  const layout::Param* record = nullptr;
  layout::Box box;
  at::Tensor value;    ///< [box.numel()] master dtype
  bool counts = true;  ///< this rank is the one to write it, of those that hold it
};

/// Moves parameters, gradients and optimizer state between the ranks. Always there: without a data strategy its
/// policy keeps everything whole. All calls come from the training thread (hooks also from backward's thread,
/// which is never beside it).
class Engine {
 public:
  /// Sets the records' role layouts and allocates parameters and gradients. `units` must outlive the engine.
  Engine(EngineOptions options, const std::vector<nn::Unit*>& units, const GroupOf& group_of);
  ~Engine();

  /// Fills this rank's boxes, unit by unit; `progress` is told (done, all) parameters.
  void fill(layout::Source& source, const std::function<void(std::int64_t, std::int64_t)>& progress = {});
  /// Gathers, releases and reduces around unit `index`.
  std::unique_ptr<strategy::UnitHooks> hooks(std::size_t index);

  /// Says which micro-step of the step the next forward and backward belong to.
  void begin_micro_step(std::int64_t index) { micro_step_ = index; }
  /// Sum of squares of each trainable weight's gradient, of the elements that this rank counts: [weights] float64
  /// on the device, in weight order. Call after the step's last backward.
  at::Tensor squared_grad_norms();
  /// The weights' names in the order of squared_grad_norms().
  std::vector<std::string> trainable_names() const;
  /// Calls the rule with all slices of trainable weights, then `after`, then publishes the parameters.
  void update(strategy::OptimizerRule& rule, const strategy::Update& update, const std::function<void()>& after = {});

  /// This rank's boxes of all parameters, from the masters.
  std::vector<StoredBox> stored_boxes() const;
  /// This rank's boxes of the summed gradients, valid after the last backward of a step.
  std::vector<StoredBox> gradient_boxes();
  /// What the engine allocates on this rank, from the same sizes. `states` as given to update().
  std::vector<layout::Footprint> footprint(std::size_t states) const;

  std::int64_t parameters() const;
  std::int64_t trainable_parameters() const;

 private:
  class Hooks;
  void make_buckets(const std::vector<nn::Unit*>& units, const GroupOf& group_of);
  void set_roles(layout::Param& record, const nn::Weight& weight) const;
  void collect(Bucket& bucket);
  /// The most elements of gathered weights that are there at once.
  std::int64_t gathered_elements() const;
  bool accumulates() const { return options_.accumulation > 1; }

  EngineOptions options_;
  std::vector<std::unique_ptr<Bucket>> buckets_;
  std::vector<std::vector<Bucket*>> buckets_of_unit_;  ///< gathered for the unit
  std::vector<std::vector<Bucket*>> reduced_by_unit_;  ///< complete after the unit's backward
  std::vector<std::vector<Bucket*>> ended_by_unit_;    ///< tied: complete at the end of backward
  Scratch scratch_;
  std::int64_t micro_step_ = 0;
  at::Tensor part_weights_;                     ///< weight of each part that squared_grad_norms() measures
  std::vector<std::vector<at::Tensor>> state_;  ///< by trainable weight
};

}  // namespace shard
CAPSTAN_END_NAMESPACE
