#include "drawing.h"

#include <capstan/base/text.h>

#include <algorithm>

namespace pipeline_parallel {

using capstan::cat;
using capstan::strategy::Timeline;

namespace {

constexpr std::size_t most_characters = 120, most_positions = 16;

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

// What a row does in each unit of time.
std::vector<std::string> cells_of(const std::vector<Timeline::Slot>& row, std::size_t length, bool with_stage) {
  std::vector<std::string> cells(length, ".");
  for (const auto& [action, begin, end] : row) {
    const auto name = cell_of(action);
    const auto first = static_cast<std::size_t>(begin);
    std::fill_n(&cells[first], static_cast<std::size_t>(end) - first, "-");
    cells[first] = with_stage ? name : name.substr(name.find_first_not_of("0123456789"));
  }
  return cells;
}

}  // namespace

std::vector<std::string> drawing_of(const Table& table, const Timeline& timeline) {
  const bool with_stage = table.stages() > table.ranks();
  std::vector<std::vector<std::string>> rows;
  const auto length = static_cast<std::size_t>(timeline.length);
  std::size_t width = 0;
  for (const auto& row : timeline.rows) {
    rows.push_back(cells_of(row, length, with_stage));
    for (const auto& cell : rows.back()) width = std::max(width, cell.size() + 1);
  }
  const auto label = cat("position ", rows.size() - 1).size() + 2;
  const auto columns = std::min(length, (most_characters - label) / width);
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < std::min(rows.size(), most_positions); ++i) {
    auto line = padded(cat("position ", i), label);
    for (std::size_t column = 0; column < columns; ++column) line += padded(rows[i][column], width);
    if (columns < rows[i].size()) line += "…";
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  if (rows.size() > most_positions) lines.emplace_back("…");
  return lines;
}

}  // namespace pipeline_parallel
