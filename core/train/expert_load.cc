#include "train/expert_load.h"

#include <capstan/base/text.h>

namespace capstan::train {

void add_expert_load(monitor::Values& values, const at::Tensor& tokens, std::int64_t layers) {
  if (tokens.numel() == 0) return;
  const auto by_layer = tokens.view({layers, -1});
  const auto experts = by_layer.sum(0);
  for (std::int64_t e = 0; e < experts.numel(); ++e)
    values.emplace_back(cat("expert_tokens_", e), experts[e].item<double>());
  const auto mean = by_layer.mean(1).clamp_min(1e-300);  // of a step without tokens: 0 / 0 is 0
  values.emplace_back("expert_load_max", (by_layer.amax(1) / mean).max().item<double>());
}

}  // namespace capstan::train
