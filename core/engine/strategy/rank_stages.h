#pragma once
#include <capstan/base/export.h>
#include <capstan/strategy/program.h>

#include <cstddef>
#include <vector>

#include "strategy/reach.h"

CAPSTAN_BEGIN_NAMESPACE
namespace strategy {

/// A stage as the rank that computes it sees it.
struct RankStage {
  int number = 0;         ///< in the model's chain
  std::size_t first = 0;  ///< its first unit, among this rank's
  std::size_t end = 0;    ///< the unit after its last
  int before = -1;        ///< the position on pp that computes the stage before it; -1: it is the model's first
  int after = -1;         ///< … and the stage after it; -1: it is the model's last
};

/// What a rank computes of the model: all of it as one stage, or the stages of its position on pp.
struct RankStages {
  std::vector<RankStage> stages;
  int position = 0;
  /// The first of this rank's units that backward reaches: at or after the first of the model's that is trained. The
  /// number of units if none is.
  std::size_t first_reached = 0;

  static RankStages whole(const std::vector<nn::Unit*>& units) {
    return {{{0, 0, units.size(), -1, -1}}, 0, last_in_backward(units)};
  }
  /// Does one rank compute the model from its first unit to its last, as one stage?
  bool is_whole() const { return stages.size() == 1 && stages.front().before < 0 && stages.front().after < 0; }
  /// The place in `stages` of a stage of the model.
  std::size_t index_of(int number) const;
  /// … and of the stage that one of this rank's units is in.
  std::size_t of_unit(std::size_t unit) const;
};

}  // namespace strategy
CAPSTAN_END_NAMESPACE
