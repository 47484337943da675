#pragma once
#include "options.h"

#include <capstan/objective.h>

#include <vector>

namespace dpo {

/// The field that has a pair's reference log-probabilities where dpo.reference is "data": one a sequence, the sum over
/// the answer's tokens.
constexpr const char* reference_field = "reference_log_probability";

/// Preferences of pairs: the first sequence of each sample is the answer that is preferred, the second the one that is
/// not.
class Dpo final : public capstan::objective::Objective {
 public:
  explicit Dpo(capstan::config::Options<DpoOptions> options);
  void check(capstan::Diagnostics& diagnostics) const override;
  capstan::objective::Plan plan() const override;
  /// Both must have the same tokens.
  void check_models(const capstan::objective::KnownModel& trained,
                    const std::vector<capstan::objective::KnownModel>& others,
                    capstan::Diagnostics& diagnostics) const override;
  /// Pairs.
  std::vector<double> counts(const capstan::data::HostBatch& batch) const override;
  capstan::objective::Sums sums(const std::vector<at::Tensor>& outputs, const capstan::nn::Batch& batch) const override;

 private:
  /// Its log-probabilities come from a forward, not from the data.
  bool has_reference_pass() const { return preference_.needs_reference() && options_->reference != "data"; }
  bool has_reference_model() const { return has_reference_pass() && options_->reference != "base"; }
  at::Tensor reference(const std::vector<at::Tensor>& outputs, const capstan::nn::Batch& batch) const;

  capstan::config::Options<DpoOptions> options_;
  Preference preference_;
};

}  // namespace dpo
