#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/batch.h>
#include <capstan/nn/model.h>
#include <capstan/strategy/unit_hooks.h>

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/weight_gradients.h"
#include "strategy/rank_stages.h"

CAPSTAN_BEGIN_NAMESPACE
namespace step {

/// A micro-batch in flight in a stage: what its backward needs of its forward. Several may be in flight.
struct MicroContext {
  const strategy::RankStage* stage = nullptr;  ///< the runner has it
  nn::Batch batch = {};
  nn::Hidden in = {};                      ///< what came from the stage before, leaves where its gradients are wanted
  nn::Hidden out = {};                     ///< what the stage computed
  std::vector<at::Tensor> roots = {};      ///< where backward starts: the tensors of `out`, or what was made of them
  std::vector<at::Tensor> gradients = {};  ///< by root: the gradient that backward starts with
  nn::KVCache* cache = nullptr;            ///< for answers that are generated; null: there are none
  std::vector<bool> in_backward = {};      ///< by unit: before_backward has run and after_backward has not
  std::vector<ops::WeightGradients> left = {};  ///< by unit: what backward_input leaves to backward_weight
};

/// Runs the chain of units: the only place where strategies act on execution. One forward or backward at a time, from
/// one thread. Outside grad mode (evaluation, generation) only the forward hooks are called.
class UnitRunner {
 public:
  /// `model`: the plugin that made the units; what a unit throws names both.
  explicit UnitRunner(const std::vector<nn::Unit*>& units, std::string model = {});
  /// … where the units are a part of the model's.
  UnitRunner(std::vector<nn::Unit*> units, strategy::RankStages stages, std::string model);
  ~UnitRunner();
  UnitRunner(const UnitRunner&) = delete;
  UnitRunner& operator=(const UnitRunner&) = delete;

  const std::vector<nn::Unit*>& units() const { return units_; }
  const strategy::RankStages& stages() const { return stages_; }
  /// Hooks added first are outermost: their before_ calls come first, their after_ calls last.
  void add_hooks(std::size_t unit, std::unique_ptr<strategy::UnitHooks> hooks);
  /// The unit keeps its inputs only and is run again in backward (Chen et al. 2016), inside all hooks.
  void set_recompute(std::size_t unit, bool recompute);
  /// Hooks that were added, over all units.
  std::size_t hooks() const;
  /// A unit, or a region of one, is run again in backward.
  bool recomputes() const;

  /// Called with the output of each unit, in order, and the unit's place in the whole model.
  using Seen = std::function<void(std::size_t unit, const nn::Hidden& output)>;
  /// All units in order. With labels in the batch, the result's `states` is the loss sum.
  nn::Hidden forward(const nn::Batch& batch);
  /// Backward of the last forward(batch) that ran, from `loss` (0-dim) with gradient `seed` (0-dim, same dtype), then
  /// the hooks that the graph missed.
  void backward(const at::Tensor& loss, const at::Tensor& seed);

  /// The units of the context's stage, from its batch and input to its output.
  void forward(MicroContext& context, const Seen& seen = {});
  /// Their backward from the context's roots: leaves have their gradients then, the context's input too.
  void backward(MicroContext& context);
  /// The same in two parts, between which the context needs neither its input nor its output, nor roots: weights get
  /// their gradients in the second, which computes those of products.
  void backward_input(MicroContext& context);
  void backward_weight(MicroContext& context);

 private:
  struct Link;
  class Crossing;
  nn::Hidden cross(const nn::Hidden& hidden, Link& link, bool enters);
  nn::Hidden run(Link& link, nn::Hidden hidden, const MicroContext& context);
  void enter_backward(Link& link);
  void leave_backward(Link& link);
  std::size_t first_reached(const MicroContext& context) const {
    return std::max(context.stage->first, stages_.first_reached);
  }
  void run_backward(MicroContext& context);
  void leave_gradients(MicroContext& context);
  void end_backward(const MicroContext& context);

  std::vector<nn::Unit*> units_;
  strategy::RankStages stages_;
  std::vector<c10::intrusive_ptr<Link>> links_;
  MicroContext alone_;               // forward(batch) uses it; it keeps no activation
  MicroContext* current_ = nullptr;  // its backward runs
  std::size_t entered_ = 0;          // the unit whose backward began last
};

}  // namespace step
CAPSTAN_END_NAMESPACE
