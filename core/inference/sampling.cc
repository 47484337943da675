#include "inference/sampling.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/base/philox.h>

#include <tuple>

namespace capstan::inference {

double draw(std::uint64_t seed, std::int64_t prompt, std::int64_t position) {
  constexpr unsigned half = 32;
  constexpr unsigned unused = 11;  // of 64 bits; a double holds 53
  const auto at = static_cast<std::uint64_t>(position);
  const auto of = static_cast<std::uint64_t>(prompt);
  const auto words = philox({{static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at >> half),
                              static_cast<std::uint32_t>(of), static_cast<std::uint32_t>(of >> half)}},
                            make_key(seed, RandomPurpose::sampling, "generate"));
  const auto bits = (static_cast<std::uint64_t>(words.word[0]) << half) | words.word[1];
  return static_cast<double>(bits >> unused) * 0x1p-53;
}

at::Tensor choose_tokens(const at::Tensor& logits, const Sampling& sampling, const std::vector<double>& draws) {
  if (sampling.temperature == 0) return logits.argmax(-1).to(at::kCPU);
  CAPSTAN_ASSERT(static_cast<std::int64_t>(draws.size()) == logits.size(0));
  const auto probabilities = at::softmax(logits.to(at::kDouble) / sampling.temperature, -1);
  const auto sorted = at::sort(probabilities, /*stable=*/true, -1, /*descending=*/true);
  const auto& values = std::get<0>(sorted);
  // A token is left out when those before it have the probability asked for; the first one never is.
  const auto kept = values.masked_fill((values.cumsum(-1) - values).ge(sampling.top_p), 0);
  const auto sums = kept.cumsum(-1);
  const auto point = at::tensor(draws, at::kDouble).to(logits.device()).unsqueeze(1) * sums.narrow(1, -1, 1);
  const auto last = kept.gt(0).sum(-1, /*keepdim=*/true) - 1;  // rounding must not go beyond what is kept
  const auto index = at::minimum(sums.le(point).sum(-1, /*keepdim=*/true), last);
  return std::get<1>(sorted).gather(1, index).squeeze(1).to(at::kCPU);
}

}  // namespace capstan::inference
