#pragma once
#include <cstddef>
#include <functional>
#include <set>
#include <tuple>
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

/// Few choices among the allowed ones such that every pair of levels of two factors that occurs in an allowed choice
/// occurs in one of them: each next one is the choice that covers most of what is left.
inline std::vector<Choice> pairwise(const std::vector<std::size_t>& levels,
                                    const std::function<bool(const Choice&)>& allowed) {
  using Pair = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>;
  const auto pairs_of = [&](const Choice& choice) {
    std::vector<Pair> pairs;
    for (std::size_t a = 0; a < choice.size(); ++a) {
      for (std::size_t b = a + 1; b < choice.size(); ++b) pairs.emplace_back(a, choice[a], b, choice[b]);
    }
    return pairs;
  };
  std::vector<Choice> candidates;
  std::set<Pair> left;
  each_choice(levels, [&](const Choice& choice) {
    if (!allowed(choice)) return;
    candidates.push_back(choice);
    for (const auto& pair : pairs_of(choice)) left.insert(pair);
  });
  std::vector<Choice> chosen;
  while (!left.empty()) {
    std::size_t most = 0;
    const Choice* best = nullptr;
    for (const auto& candidate : candidates) {
      std::size_t covers = 0;
      for (const auto& pair : pairs_of(candidate)) covers += left.count(pair);
      if (covers > most) {
        most = covers;
        best = &candidate;
      }
    }
    chosen.push_back(*best);
    for (const auto& pair : pairs_of(*best)) left.erase(pair);
  }
  return chosen;
}

}  // namespace capstan::testing
