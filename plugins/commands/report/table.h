#pragma once
#include <string>
#include <vector>

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
};

/// Columns of equal width under the title, then the footnotes.
std::string text_of(const Table& table);
/// RFC 4180: the head, then the rows; a cell without a value is empty, and one that a spreadsheet would compute begins
/// with an apostrophe. Notes are left out.
std::string csv_of(const Table& table);
/// GitHub's Markdown, the title as a heading of the third level.
std::string markdown_of(const Table& table);
/// A section of a page: heading, table, footnotes.
std::string html_of(const Table& table);

/// A text's characters that HTML gives a meaning, escaped.
std::string html_text(const std::string& text);

}  // namespace report
