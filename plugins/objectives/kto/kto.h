#pragma once
#include "kto_loss.h"

#include <capstan/objective.h>

#include <string>
#include <vector>

namespace kto {

struct KtoOptions {
  std::string reference = "base";
  double beta = 0.1;
  double desirable_weight = 1;
  double undesirable_weight = 1;

  static void describe(capstan::config::OptionTable<KtoOptions>& t);
};

/// Answers that are each wanted or not: a sample's first sequence is a prompt with its answer, the second one the
/// prompt with another's, from which the distance to the reference is estimated.
class Kto final : public capstan::objective::Objective {
 public:
  explicit Kto(capstan::config::Options<KtoOptions> options) : options_(std::move(options)) {}
  void check(capstan::Diagnostics& diagnostics) const override;
  capstan::objective::Plan plan() const override;
  /// Both must have the same tokens.
  void check_models(const capstan::objective::KnownModel& trained,
                    const std::vector<capstan::objective::KnownModel>& others,
                    capstan::Diagnostics& diagnostics) const override;
  /// Answers, those that are wanted, and the others.
  std::vector<double> counts(const capstan::data::HostBatch& batch) const override;
  std::vector<at::Tensor> baselines(const capstan::objective::Others& others,
                                    const capstan::nn::Batch& batch) const override;
  capstan::objective::Sums sums(const std::vector<at::Tensor>& outputs, const capstan::nn::Batch& batch) const override;

 private:
  capstan::config::Options<KtoOptions> options_;
};

}  // namespace kto
