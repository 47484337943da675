#include "table_file.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pipeline_parallel {

using namespace capstan;
using strategy::Action;
using Kind = Action::Kind;

namespace {

constexpr const char* forms =
    "write cells such as 0F3 (forward of micro-batch 3 in stage 0), 0B3 (its backward), or 0I3 and 0W3 (its backward "
    "of "
    "inputs, and of weights)";

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> pieces_of(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (true) {
    const auto end = text.find(separator);
    pieces.push_back(trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

// The number that the text begins with, which is cut off.
std::optional<int> take_number(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

// What is between a cell's numbers. Null: it follows from the others.
const std::map<std::string_view, std::optional<Kind>>& kinds() {
  static const std::map<std::string_view, std::optional<Kind>> all{{"F", Kind::forward},
                                                                   {"B", Kind::backward},
                                                                   {"I", Kind::backward_input},
                                                                   {"W", Kind::backward_weight},
                                                                   {"SEND_F", {}},
                                                                   {"RECV_F", {}},
                                                                   {"SEND_B", {}},
                                                                   {"RECV_B", {}},
                                                                   {"UNSHARD", {}},
                                                                   {"RESHARD", {}},
                                                                   {"REDUCE_GRAD", {}}};
  return all;
}

/// Reads a file's rows, and remembers where each action stands.
class Reader {
 public:
  explicit Reader(std::filesystem::path file) : file_(std::move(file)) {}

  FileTable read(std::string_view text) {
    const auto lines = pieces_of(text, '\n');
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (lines[i].empty() || lines[i].front() == '#') continue;
      lines_.push_back(i + 1);
      cells_.emplace_back();
      result_.table.rows.emplace_back();
      const auto cells = pieces_of(lines[i], ',');
      for (std::size_t cell = 0; cell < cells.size(); ++cell) read_cell(cells[cell], cell + 1);
    }
    place_stages();
    if (const auto fault = judge(result_.table, result_.micros).fault) refuse(*fault);
    return std::move(result_);
  }

 private:
  std::string at(std::size_t line) const { return cat(file_.string(), ":", line); }

  void read_cell(std::string_view text, std::size_t cell) {
    if (text.empty()) return;
    if (text.front() == '(') {
      const auto end = text.find(')');
      if (trimmed(text.substr(std::min(end, text.size() - 1) + 1)) != "OVERLAP_F_B") unknown(text, cell);
      for (const auto part : pieces_of(text.substr(1, end - 1), ';')) read_cell(part, cell);
      return;
    }
    auto rest = text;
    const auto stage = take_number(rest);
    const auto digits = rest.find_first_of("0123456789");
    const auto kind = kinds().find(rest.substr(0, digits));
    if (!stage || kind == kinds().end()) unknown(text, cell);
    if (!kind->second) return;
    rest.remove_prefix(kind->first.size());
    const auto micro = take_number(rest);
    if (!micro || *micro == std::numeric_limits<int>::max() || !rest.empty()) unknown(text, cell);
    result_.table.rows.back().push_back({*kind->second, *stage, *micro});
    cells_.back().push_back(cell);
  }

  [[noreturn]] void unknown(std::string_view text, std::size_t cell) const {
    throw Error(cat("cell ", cell, " is '", text, "', which is no action of a pipeline"), forms, at(lines_.back()));
  }

  // A stage is on the position whose line has it.
  void place_stages() {
    auto& [table, micros] = result_;
    std::map<int, int> positions;
    for (std::size_t row = 0; row < table.rows.size(); ++row) {
      if (table.rows[row].empty()) throw Error("the line has no action", forms, at(lines_[row]));
      for (std::size_t i = 0; i < table.rows[row].size(); ++i) {
        const auto& action = table.rows[row][i];
        micros = std::max(micros, action.micro + 1);
        const auto [holder, is_new] = positions.emplace(action.stage, static_cast<int>(row));
        if (holder->second == static_cast<int>(row)) continue;
        refuse({row, i, cat("stage ", action.stage, " is computed by line ", lines_[holder->second], " already")});
      }
    }
    if (positions.empty()) throw Error("no line has an action", forms, file_.string());
    for (const auto& [stage, position] : positions) {
      if (stage != static_cast<int>(table.positions.size())) {
        throw Error(cat("no line has stage ", table.positions.size(), ", and one has stage ", stage),
                    "number stages from 0 in the order of the model", file_.string());
      }
      table.positions.push_back(position);
    }
  }

  [[noreturn]] void refuse(const Fault& fault) const {
    const auto& row = result_.table.rows[fault.position];
    const auto& cells = cells_[fault.position];
    const auto where =
        fault.action < row.size() ? cat("cell ", cells[fault.action], ", ", cell_of(row[fault.action]), ": ") : "";
    throw Error(cat("position ", fault.position, ", ", where, fault.what), "correct the table",
                at(lines_[fault.position]));
  }

  std::filesystem::path file_;
  FileTable result_;
  std::vector<std::size_t> lines_;               // by row
  std::vector<std::vector<std::size_t>> cells_;  // by row and action
};

}  // namespace

FileTable table_of(std::string_view text, const std::filesystem::path& file) { return Reader(file).read(text); }

FileTable read_table(const std::filesystem::path& file) { return table_of(read_file(file), file); }

}  // namespace pipeline_parallel
