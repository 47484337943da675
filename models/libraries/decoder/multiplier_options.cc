#include <capstan/base/text.h>
#include <capstan/decoder/multiplier_options.h>

#include <cmath>

namespace capstan::decoder {
namespace {

using M = MultiplierOptions;

double usual_multiplier(std::int64_t dim) { return 1 / std::sqrt(static_cast<double>(dim)); }

}  // namespace

void MultiplierOptions::multiply(Spec& spec) const {
  const auto usual = usual_multiplier(spec.attention.heads.dim);
  auto& scale = spec.attention.scale;
  scale = scale.value_or(usual) / usual * attention_multiplier.value_or(usual);  // YaRN's factor stays
  spec.embedding_multiplier = embedding_multiplier;
  spec.residual_multiplier = residual_multiplier;
  spec.logits_multiplier = 1 / logits_scaling;
}

void describe_multipliers(config::OptionTable<MultiplierOptions> table) {
  table.add("embedding_multiplier", &M::embedding_multiplier).above(0).doc("multiplies the embeddings");
  table.add("residual_multiplier", &M::residual_multiplier)
      .above(0)
      .doc("multiplies what each layer adds to its residual");
  table.add("attention_multiplier", &M::attention_multiplier)
      .above(0)
      .doc("multiplies q k; 1 / sqrt(width of a head) when not set");
  table.add("logits_scaling", &M::logits_scaling).above(0).doc("what logits are divided by");
}

config::Preset multiplier_defaults() { return multiplier_preset({1, 1, 1.0, 1}); }

config::Preset multiplier_preset(const MultiplierOptions& multipliers) {
  config::Preset out{{"embedding_multiplier", multipliers.embedding_multiplier},
                     {"residual_multiplier", multipliers.residual_multiplier},
                     {"logits_scaling", multipliers.logits_scaling}};
  if (multipliers.attention_multiplier) out.emplace_back("attention_multiplier", *multipliers.attention_multiplier);
  return out;
}

void describe_multiplier_files(const MultiplierOptions& options, std::int64_t dim, layout::FileMap& map) {
  if (!options.attention_multiplier) map.more["attention_multiplier"] = number_text(usual_multiplier(dim));
}

}  // namespace capstan::decoder
