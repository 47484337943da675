#pragma once
#include <capstan/strategy/program.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace pipeline_parallel {

/// A step's forwards and backwards on all positions of pp.
struct Table {
  std::vector<int> positions;                    ///< who computes each stage
  std::vector<capstan::strategy::Program> rows;  ///< by position, in the order in which it runs them

  int ranks() const { return static_cast<int>(rows.size()); }
  int stages() const { return static_cast<int>(positions.size()); }
};

/// "1F3": forward of micro-batch 3 in stage 1, as PyTorch's tables have it; B is a backward, I one of inputs, W one of
/// weights. "" for a transfer.
std::string cell_of(const capstan::strategy::Action& action);

/// What is wrong with a table, and where.
struct Fault {
  std::size_t position = 0;
  std::size_t action = 0;  ///< its place in the row; the row's length: something is missing at the end
  std::string what;
};

/// The share of all positions' time in which they wait.
double bubble(const capstan::strategy::Timeline& timeline);

struct Judgement {
  std::optional<Fault> fault;
  capstan::strategy::Timeline timeline;  ///< with durations as they stand; up to the fault
  /// By position: the most forwards in its stages whose backward, or backward of weights, has not run.
  std::vector<int> live;
};

/// Judges a table for this many micro-batches: each stage has a forward and a backward of each, or a backward of inputs
/// and later one of weights, on its position; what an action needs is there in the end, whatever waits for what.
Judgement judge(const Table& table, int micros);

}  // namespace pipeline_parallel
