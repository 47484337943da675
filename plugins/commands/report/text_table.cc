// A table's text form: what fits into lines of a terminal.
#include <capstan/base/text.h>

#include <algorithm>
#include <numeric>

#include "table.h"

namespace report {

using namespace capstan;

namespace {

using Cells = std::vector<std::string>;

constexpr std::size_t gap = 2;         ///< between two columns
constexpr std::size_t long_cell = 28;  ///< longer cells are broken where there is too little room

// Letters of UTF-8.
std::size_t letters_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::size_t longest_word(const std::string& text) {
  std::size_t longest = 0;
  for (const auto& word : split(text, ' ')) longest = std::max(longest, letters_of(word));
  return longest;
}

// The text in lines of at most `columns`, if no word is longer.
Cells lines_of(const std::string& text, std::size_t columns) {
  Cells lines{""};
  for (const auto& word : split(text, ' ')) {
    auto& line = lines.back();
    if (line.empty()) {
      line = word;
    } else if (letters_of(line) + 1 + letters_of(word) <= columns) {
      line += " " + word;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

// A column's width: whole, with its head broken, with its long cells broken too.
enum class Squeeze { nothing, head, cells };

std::size_t width_of_column(const std::vector<Cells>& rows, std::size_t column, Squeeze squeeze) {
  std::size_t most = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& text = rows[i][column];
    const bool breaks =
        i == 0 ? squeeze != Squeeze::nothing : squeeze == Squeeze::cells && letters_of(text) > long_cell;
    const auto least = i == 0 ? std::size_t{0} : long_cell;
    most = std::max(most, breaks ? std::max(longest_word(text), std::min(least, letters_of(text))) : letters_of(text));
  }
  return most;
}

std::vector<std::size_t> widths_of(const std::vector<Cells>& rows, std::size_t columns) {
  std::vector<std::size_t> widths;
  for (const auto squeeze : {Squeeze::nothing, Squeeze::head, Squeeze::cells}) {
    widths.clear();
    for (std::size_t i = 0; i < rows.front().size(); ++i) widths.push_back(width_of_column(rows, i, squeeze));
    if (std::accumulate(widths.begin(), widths.end(), gap * (widths.size() - 1)) <= columns) break;
  }
  return widths;
}

// Which columns stand beside each other; the first one begins each block.
std::vector<std::vector<std::size_t>> blocks_of(const std::vector<std::size_t>& widths, std::size_t columns) {
  std::vector<std::vector<std::size_t>> blocks{{0}};
  auto used = widths.front();
  for (std::size_t i = 1; i < widths.size(); ++i) {
    if (blocks.back().size() > 1 && used + gap + widths[i] > columns) {
      blocks.push_back({0});
      used = widths.front();
    }
    blocks.back().push_back(i);
    used += gap + widths[i];
  }
  return blocks;
}

// A row as lines; a head stands on the row below it.
std::string row_text(const Cells& row, const std::vector<std::size_t>& block, const std::vector<std::size_t>& widths,
                     bool is_head) {
  std::vector<Cells> cells;
  std::size_t most_lines = 0;
  for (const auto column : block) {
    cells.push_back(lines_of(row[column], widths[column]));
    most_lines = std::max(most_lines, cells.back().size());
  }
  std::string out;
  for (std::size_t line = 0; line < most_lines; ++line) {
    std::string text;
    std::size_t wanted = 0;
    for (std::size_t i = 0; i < block.size(); ++i) {
      const auto above = is_head ? most_lines - cells[i].size() : 0;
      const bool is_there = line >= above && line - above < cells[i].size();
      if (is_there) text += std::string(wanted - letters_of(text), ' ') + cells[i][line - above];
      wanted += widths[block[i]] + gap;
    }
    out += text + "\n";
  }
  return out;
}

}  // namespace

std::string fitted_text(const std::vector<Cells>& rows, std::size_t columns) {
  const auto widths = widths_of(rows, columns);
  std::string out;
  for (const auto& block : blocks_of(widths, columns)) {
    if (!out.empty()) out += "\n";
    for (std::size_t i = 0; i < rows.size(); ++i) out += row_text(rows[i], block, widths, i == 0);
  }
  return out;
}

std::string wrapped(const std::string& text, std::size_t columns, const std::string& first, const std::string& next) {
  std::string out;
  for (const auto& line : lines_of(text, columns - std::max(letters_of(first), letters_of(next))))
    out += cat(out.empty() ? first : next, line, "\n");
  return out;
}

}  // namespace report
