#pragma once
#include "options.h"

#include <capstan/objective.h>

#include <vector>

namespace distill {

/// Distillation: (1 - α) · cross entropy of the labels + α · T² · KL(teacher || student) at temperature T, means over
/// the tokens that bear loss (Hinton et al. 2015, "Distilling the Knowledge in a Neural Network").
class Distill final : public capstan::objective::Objective {
 public:
  explicit Distill(capstan::config::Options<DistillOptions> options);
  void check(capstan::Diagnostics& diagnostics) const override;
  capstan::objective::Plan plan() const override;
  /// The teacher must have as many words as the student, no fewer than top_k, and the same tokens.
  void check_models(const capstan::objective::KnownModel& trained,
                    const std::vector<capstan::objective::KnownModel>& others,
                    capstan::Diagnostics& diagnostics) const override;
  /// The teacher's likeliest words [2, M, top_k] float64: their ids, then the logarithms of their probabilities. The
  /// student's loss sum, and the sum over all labels' rows of its divergence from the teacher: [2].
  at::Tensor head(std::size_t pass, const capstan::nn::HeadInput& input,
                  const capstan::objective::Others& others) const override;
  /// Target tokens.
  std::vector<double> counts(const capstan::data::HostBatch& batch) const override;
  capstan::objective::Sums sums(const std::vector<at::Tensor>& outputs, const capstan::nn::Batch& batch) const override;

 private:
  bool is_teacher_in_data() const { return options_->teacher == "data"; }
  capstan::config::Options<DistillOptions> options_;
  Teacher teacher_of(const capstan::nn::Batch& batch, const capstan::objective::Others& others) const;
  Comparison comparison_;
};

}  // namespace distill
