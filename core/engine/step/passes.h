#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/batch.h>
#include <capstan/objective/objective.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "step/frozen_runner.h"
#include "strategy/objective.h"

CAPSTAN_BEGIN_NAMESPACE
namespace step {

/// A micro-batch's way through the passes of an objective.
class Passes {
 public:
  using Forward = std::function<nn::Hidden(const nn::Batch&)>;
  /// `forward` runs all units and is called without gradient. `models` are those of the plan, and must outlive it.
  Passes(std::shared_ptr<const strategy::Objective> objective, Forward forward, std::vector<FrozenRunner*> models = {})
      : objective_(std::move(objective)), forward_(std::move(forward)), models_(std::move(models)) {}
  const strategy::Objective& objective() const { return *objective_; }
  /// The batch as the pass with the gradient gets it, from what run_others() gave.
  nn::Batch trained(nn::Batch batch, const std::vector<at::Tensor>& others = {}) const;
  /// Runs the passes without gradient: what each gives, by pass, for sums(). Undefined on a rank that does not compute
  /// the model's end, and for the pass with the gradient. `batches`: the micro-batch by strategy::Objective::choices().
  std::vector<at::Tensor> run_others(const std::vector<nn::Batch>& batches) const;
  /// What the objective gets of what a pass gives (PassSpec::sequences).
  at::Tensor as_asked(std::size_t pass, const nn::Batch& batch, const at::Tensor& output) const;
  /// What `others`, of run_others(), add to the plan's baselines: [baselines] float64. On a rank that computes the
  /// model's end.
  at::Tensor baselines(const nn::Batch& batch, const std::vector<at::Tensor>& others) const;
  /// The step's baselines, sums over all samples divided by `counts`, which the pass with the gradient is told from now
  /// on; 0 until then.
  void tell(const at::Tensor& sums, const std::vector<double>& counts);
  /// The micro-batch's sums, from what run_others() gave (empty: there is no such pass) and from the `output` of the
  /// pass with the gradient.
  objective::Sums sums(const nn::Batch& batch, std::vector<at::Tensor> others, const at::Tensor& output) const;
  /// All passes without gradient, in evaluation. Empty on a rank that does not compute the model's end.
  objective::Sums evaluate(const std::vector<nn::Batch>& batches) const;

 private:
  nn::Batch of_pass(std::size_t pass, nn::Batch batch, const std::vector<at::Tensor>& others) const;
  std::shared_ptr<const strategy::Objective> objective_;
  Forward forward_;
  std::vector<FrozenRunner*> models_;
  at::Tensor baselines_;  ///< undefined until they are told
};

}  // namespace step
CAPSTAN_END_NAMESPACE
