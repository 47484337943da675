#pragma once
#include <capstan/base/text.h>

#include <string>
#include <vector>

#include "plugins/strategies/pipeline_parallel/table.h"

namespace pipeline_parallel {

/// "0F0 0F1 0B0".
inline std::string text_of(const capstan::strategy::Program& row) {
  std::vector<std::string> cells;
  for (const auto& action : row) cells.push_back(cell_of(action));
  return capstan::join(cells, " ");
}

/// The same of all rows, a line each.
inline std::string text_of(const Table& table) {
  std::vector<std::string> lines;
  for (const auto& row : table.rows) lines.push_back(text_of(row));
  return capstan::join(lines, "\n");
}

}  // namespace pipeline_parallel
