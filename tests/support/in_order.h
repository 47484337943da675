#pragma once
// Do programs end if a position begins nothing before the last thing has ended, and a transfer ends when both of its
// ends have come to it?
#include <capstan/strategy/program.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace capstan::testing {

inline bool end_in_order(const std::vector<strategy::Program>& programs) {
  using Kind = strategy::Action::Kind;
  std::vector<std::size_t> next(programs.size(), 0);
  const auto has_ended = [&](std::size_t p) { return next[p] == programs[p].size(); };
  const auto is_compute = [](Kind kind) {
    return kind == Kind::forward || kind == Kind::backward || kind == Kind::backward_input ||
           kind == Kind::backward_weight;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t p = 0; p < programs.size(); ++p) {
      for (; !has_ended(p) && is_compute(programs[p][next[p]].kind); ++next[p]) moved = true;
    }
    for (std::size_t p = 0; p < programs.size(); ++p) {
      for (std::size_t q = 0; q < programs.size(); ++q) {
        if (p == q || has_ended(p) || has_ended(q)) continue;
        const auto &one = programs[p][next[p]], &other = programs[q][next[q]];
        if (is_compute(one.kind) || is_compute(other.kind) || strategy::cargo(one) != strategy::cargo(other)) continue;
        ++next[p], ++next[q];
        moved = true;
      }
    }
  }
  for (std::size_t p = 0; p < programs.size(); ++p) {
    if (!has_ended(p)) return false;
  }
  return true;
}

/// The programs of all positions, with their transfers.
inline bool end_in_order(const strategy::Stages& stages, int micros) {
  std::vector<strategy::Program> programs;
  const int positions = 1 + *std::max_element(stages.positions.begin(), stages.positions.end());
  for (int p = 0; p < positions; ++p)
    programs.push_back(strategy::with_transfers(stages.program(p, micros), stages, p));
  return end_in_order(programs);
}

}  // namespace capstan::testing
