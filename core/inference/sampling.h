#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <cstdint>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace inference {

/// How a next token is chosen from logits.
struct Sampling {
  double temperature = 0;  ///< 0: the most probable one
  double top_p = 1;  ///< of what is drawn from: the fewest most probable tokens that together have this probability
  std::uint64_t seed = 0;
};

/// The number in [0, 1) that chooses a prompt's token at a position: a Philox block of (seed, prompt, position), so
/// that it depends on nothing else, least of all on who computes it.
double draw(std::uint64_t seed, std::int64_t prompt, std::int64_t position);

/// logits [B, vocabulary] -> [B] int64 on the CPU. `draws`: a number in [0, 1) for each row; not read where the
/// temperature is 0. Probabilities are float64; of equal ones the lower id comes first.
at::Tensor choose_tokens(const at::Tensor& logits, const Sampling& sampling, const std::vector<double>& draws);

}  // namespace inference
CAPSTAN_END_NAMESPACE
