#include "data/views.h"

#include <capstan/base/error.h>
#include <capstan/base/philox.h>

#include <algorithm>
#include <utility>

namespace capstan::data {

std::unique_ptr<SampleOrder> SourceView::order(const OrderRequest& request) const {
  auto order = source_->order(request);
  if (order && size() != source_->size()) {
    throw Error("the training data have an order of their own, and only a part of them is taken",
                "remove data.eval_fraction or data.samples_per_rank");
  }
  return order;
}

std::int64_t Selection::size() const {
  const auto chosen = std::ssize(*chosen_);
  return is_rest_ ? SourceView::size() - chosen : chosen;
}

// The i-th of the rest has those of the chosen before it that are at most i when one counts only the rest.
std::int64_t Selection::index_of(std::int64_t index) const {
  const auto& chosen = *chosen_;
  if (!is_rest_) return chosen.at(static_cast<std::size_t>(index));
  std::int64_t least = 0, most = std::ssize(chosen);
  while (least < most) {
    const auto middle = (least + most) / 2;
    if (chosen[static_cast<std::size_t>(middle)] - middle <= index) {
      least = middle + 1;
    } else {
      most = middle;
    }
  }
  return index + least;
}

std::vector<std::int64_t> keyed_choice(std::int64_t samples, std::int64_t count, std::uint64_t seed) {
  CAPSTAN_ASSERT(count >= 0 && count <= samples);
  const auto key = mix_bits(seed ^ stable_hash("evaluation"));
  std::vector<std::pair<std::uint64_t, std::int64_t>> words;
  words.reserve(static_cast<std::size_t>(samples));
  for (std::int64_t i = 0; i < samples; ++i)
    words.emplace_back(mix_bits(key + 0x9E3779B97F4A7C15U * (static_cast<std::uint64_t>(i) + 1)), i);
  std::nth_element(words.begin(), words.begin() + count, words.end());
  std::vector<std::int64_t> chosen;
  for (std::int64_t i = 0; i < count; ++i) chosen.push_back(words[static_cast<std::size_t>(i)].second);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace capstan::data
