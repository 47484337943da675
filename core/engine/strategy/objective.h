#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/batch.h>
#include <capstan/objective/objective.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

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
  /// Which sequences of samples passes go over, each choice once and that of the pass with the gradient first. Empty:
  /// all of them.
  const std::vector<std::vector<std::size_t>>& choices() const { return choices_; }
  /// Index into choices().
  std::size_t choice_of(std::size_t pass) const;
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
  std::vector<std::vector<std::size_t>> choices_;
};

/// What a count divides by.
double divisor(double count);

}  // namespace strategy
CAPSTAN_END_NAMESPACE
