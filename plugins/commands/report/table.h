#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "pages/page.h"

namespace report {

/// A table's cell: its value, or why there is none.
struct Cell {
  std::string text;
  std::string missing;  ///< a sentence; becomes a footnote, and the cell a dash with its number
};
inline Cell cell(std::string text) { return {std::move(text), {}}; }
inline Cell no_cell(std::string why) { return {{}, std::move(why)}; }

/// A filled table with its footnotes.
struct Table {
  std::string name;   ///< "weak-layers"
  std::string title;  ///< "Weak scaling of the custom model"
  std::vector<std::string> head;
  std::vector<std::vector<Cell>> rows;
  std::vector<std::string> notes;          ///< what the columns mean
  std::vector<std::string> warnings = {};  ///< why its numbers may not compare; shown before the notes
  std::vector<std::string> facts = {};     ///< of these runs, what no column has; shown between both
  std::optional<std::size_t> best = {};    ///< the row whose first cell is marked
};

/// Columns of equal width under the title, then the footnotes, 100 columns wide: heads and long cells are broken at
/// spaces, then columns continue below, with the first one again. Words are not broken, so that one of more than some
/// 70 letters makes a longer line.
std::string text_of(const Table& table);
/// RFC 4180: the head, then the rows; a cell without a value is empty, and one that a spreadsheet would compute begins
/// with an apostrophe. Notes are left out.
std::string csv_of(const Table& table);
/// GitHub's Markdown, the title as a heading of the third level.
std::string markdown_of(const Table& table);
/// A section of a page: heading, table, footnotes but for what the columns mean.
std::string html_of(const Table& table);

/// Rows of cells in lines of at most `columns`, the first row as heads; see text_of().
std::string fitted_text(const std::vector<std::vector<std::string>>& rows, std::size_t columns);
/// `first`, then the text, broken at spaces before `columns`; further lines begin with `next`.
std::string wrapped(const std::string& text, std::size_t columns, const std::string& first, const std::string& next);

using pages::html_text;

}  // namespace report
