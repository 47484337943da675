#pragma once
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace capstan::testing {

/// One level for each factor.
using Choice = std::vector<std::size_t>;

/// Calls visit for every choice of levels.
inline void each_choice(const std::vector<std::size_t>& levels, const std::function<void(const Choice&)>& visit) {
  Choice choice(levels.size(), 0);
  while (true) {
    visit(choice);
    std::size_t factor = 0;
    while (factor < levels.size() && ++choice[factor] == levels[factor]) choice[factor++] = 0;
    if (factor == levels.size()) return;
  }
}

/// Every pair of levels of two factors as a number: looked up often, so no set.
struct Pairs {
  std::vector<std::size_t> levels;
  std::vector<std::size_t> first;  ///< number of each pair of factors (0, 1), (0, 2), … (1, 2), …
  std::size_t count = 0;

  std::vector<std::size_t> of(const Choice& choice) const {
    std::vector<std::size_t> numbers;
    for (std::size_t a = 0; a < levels.size(); ++a) {
      for (std::size_t b = a + 1; b < levels.size(); ++b)
        numbers.push_back(first[numbers.size()] + choice[a] * levels[b] + choice[b]);
    }
    return numbers;
  }
};

inline Pairs number_pairs(const std::vector<std::size_t>& levels) {
  Pairs pairs{levels, {}, 0};
  for (std::size_t a = 0; a < levels.size(); ++a) {
    for (std::size_t b = a + 1; b < levels.size(); ++b) {
      pairs.first.push_back(pairs.count);
      pairs.count += levels[a] * levels[b];
    }
  }
  return pairs;
}

/// Few choices among the allowed ones such that every pair of levels of two factors that occurs in an allowed choice
/// occurs in one of them: each next one is the choice that covers most of what is left.
inline std::vector<Choice> pairwise(const std::vector<std::size_t>& levels,
                                    const std::function<bool(const Choice&)>& allowed) {
  const auto pairs = number_pairs(levels);
  std::vector<std::pair<Choice, std::vector<std::size_t>>> candidates;
  std::vector<char> left(pairs.count, 0);
  each_choice(levels, [&](const Choice& choice) {
    if (!allowed(choice)) return;
    candidates.emplace_back(choice, pairs.of(choice));
    for (const auto pair : candidates.back().second) left[pair] = 1;
  });
  std::vector<Choice> chosen;
  while (true) {
    std::size_t most = 0;
    const std::pair<Choice, std::vector<std::size_t>>* best = nullptr;
    for (const auto& candidate : candidates) {
      std::size_t covers = 0;
      for (const auto pair : candidate.second) covers += static_cast<std::size_t>(left[pair]);
      if (covers > most) {
        most = covers;
        best = &candidate;
      }
    }
    if (!best) return chosen;
    chosen.push_back(best->first);
    for (const auto pair : best->second) left[pair] = 0;
  }
}

}  // namespace capstan::testing
