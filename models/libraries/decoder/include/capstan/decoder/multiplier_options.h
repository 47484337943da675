#pragma once
#include <capstan/base/export.h>
#include <capstan/config/options.h>
#include <capstan/decoder/decoder.h>

#include <cstdint>
#include <optional>

CAPSTAN_BEGIN_NAMESPACE
namespace decoder {

/// Multipliers of embeddings, residuals, scores and logits, as the Granite families have them. A model's options derive
/// from these and from RotaryOptions.
struct MultiplierOptions {
  double embedding_multiplier = 1;
  double residual_multiplier = 1;
  std::optional<double> attention_multiplier;
  double logits_scaling = 1;

  void multiply(Spec& spec) const;
};

void describe_multipliers(config::OptionTable<MultiplierOptions> table);
/// What transformers takes where a config.json lacks them.
config::Preset multiplier_defaults();
/// What presets of such models differ in.
config::Preset multiplier_preset(const MultiplierOptions& multipliers);
/// A file says the scores' multiplier, also where it is the usual one of heads of `dim` numbers.
void describe_multiplier_files(const MultiplierOptions& options, std::int64_t dim, layout::FileMap& map);

}  // namespace decoder
CAPSTAN_END_NAMESPACE
