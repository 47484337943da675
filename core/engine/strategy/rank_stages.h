#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/model.h>
#include <capstan/strategy/program.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace strategy {

/// The unit at which backward ends: the first that has something to train. All after it are reached, frozen ones too,
/// and none before it is, whatever they are joined with. The number of units if nothing is trained.
inline std::size_t last_in_backward(const std::vector<nn::Unit*>& units) {
  const auto found = std::find_if(units.begin(), units.end(), [](const auto* unit) { return unit->trainable(); });
  return static_cast<std::size_t>(found - units.begin());
}

/// What is wrong with stages of a model that has this number of units, on this number of positions of pp; empty:
/// nothing.
std::string fault_of(const Stages& stages, std::size_t units, int positions);

/// A stage as the rank that computes it sees it.
struct RankStage {
  int number = 0;         ///< in the model's chain
  std::size_t first = 0;  ///< its first unit, among this rank's
  std::size_t end = 0;    ///< the unit after its last
  std::size_t place = 0;  ///< its first unit's among the whole model's
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
    return {{{0, 0, units.size(), 0, -1, -1}}, 0, last_in_backward(units)};
  }
  /// The stages of this position, for a model of these units.
  static RankStages of(const Stages& stages, int position, const std::vector<nn::Unit*>& model);
  /// Does one rank compute the model from its first unit to its last, as one stage?
  bool is_whole() const { return stages.size() == 1 && stages.front().before < 0 && stages.front().after < 0; }
  /// Does this rank compute the model's last unit?
  bool has_end() const { return stages.back().after < 0; }
  /// The place in `stages` of a stage of the model.
  std::size_t index_of(int number) const;
  /// … and of the stage that one of this rank's units is in.
  std::size_t of_unit(std::size_t unit) const;
  /// A unit's place among the whole model's.
  std::size_t place_of(std::size_t unit) const {
    const auto& stage = stages[of_unit(unit)];
    return stage.place + unit - stage.first;
  }
};

/// A part of a program, and how many forwards are in flight in it at most: their backward is not complete.
struct BusiestPart {
  Program program;
  int in_flight = 0;
};
/// A step's program up to the end of the second micro-batch that leaves a stage while the most is in flight, where
/// stages count by their units: what is held from one to the next is there then. Each kind of action of each stage is
/// in it at least once.
BusiestPart busiest_part(const Program& program, const RankStages& stages);

}  // namespace strategy
CAPSTAN_END_NAMESPACE
