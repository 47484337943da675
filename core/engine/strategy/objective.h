#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/batch.h>
#include <capstan/objective/objective.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "strategy/frozen_runner.h"

CAPSTAN_BEGIN_NAMESPACE
namespace strategy {

/// An objective with its plan; errors name its plugin, and what it returns has the sizes that the plan says.
class Objective {
 public:
  /// Throws Error for a plan that cannot be: no pass or several with a gradient, an index of a count that there is not.
  Objective(std::string plugin, std::shared_ptr<const objective::Objective> object);
  const objective::Plan& plan() const { return plan_; }
  /// Index of the pass that has the gradient.
  std::size_t trained() const { return trained_; }
  /// Which count the loss is a mean over.
  std::size_t base() const { return plan_.terms.front().count; }
  /// Whether some pass is of the base model, without what strategies add to it.
  bool needs_base() const;
  void check_models(const objective::KnownModel& trained, const std::vector<objective::KnownModel>& others,
                    Diagnostics& diagnostics) const;
  std::vector<double> counts(const data::HostBatch& batch) const;
  at::Tensor head(std::size_t pass, const nn::HeadInput& input, const objective::Others& others) const;
  std::vector<at::Tensor> baselines(const objective::Others& others, const nn::Batch& batch) const;
  objective::Sums sums(const std::vector<at::Tensor>& outputs, const nn::Batch& batch) const;
  /// What the sum of each term is multiplied by, so that the sum of them, divided by the count base(), is what is
  /// minimised. `counts` are those of the step. A count of 0 divides nothing: its sums are 0.
  std::vector<double> factors(const std::vector<double>& counts) const;

 private:
  std::string plugin_;
  std::shared_ptr<const objective::Objective> object_;
  objective::Plan plan_;
  std::size_t trained_ = 0;
};

/// What a count divides by.
double divisor(double count);

/// A micro-batch's way through the passes of an objective.
class Passes {
 public:
  using Forward = std::function<nn::Hidden(const nn::Batch&)>;
  /// `forward` runs all units and is called without gradient. `models` are those of the plan, and must outlive it.
  Passes(std::shared_ptr<const Objective> objective, Forward forward, std::vector<FrozenRunner*> models = {})
      : objective_(std::move(objective)), forward_(std::move(forward)), models_(std::move(models)) {}
  const Objective& objective() const { return *objective_; }
  /// The batch as the pass with the gradient gets it, from what run_others() gave.
  nn::Batch trained(nn::Batch batch, const std::vector<at::Tensor>& others = {}) const;
  /// Runs the passes without gradient: what each gives, by pass, for sums(). Undefined on a rank that does not compute
  /// the model's end, and for the pass with the gradient.
  std::vector<at::Tensor> run_others(const nn::Batch& batch) const;
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
  objective::Sums evaluate(const nn::Batch& batch) const;

 private:
  nn::Batch of_pass(std::size_t pass, nn::Batch batch, const std::vector<at::Tensor>& others) const;
  std::shared_ptr<const Objective> objective_;
  Forward forward_;
  std::vector<FrozenRunner*> models_;
  at::Tensor baselines_;  ///< undefined until they are told
};

}  // namespace strategy
CAPSTAN_END_NAMESPACE
