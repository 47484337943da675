#include "table.h"

#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

namespace csv {

using namespace capstan;

namespace {

// Steps done as the row's first cell says; -1: none.
std::int64_t step_of(const std::string& row) {
  std::int64_t step = -1;
  std::from_chars(row.data(), row.data() + row.size(), step);
  return step;
}

std::string cell(double number) {
  return std::isfinite(number) ? number_text(number) : std::isnan(number) ? "nan" : "inf";
}

}  // namespace

Table::Table(std::filesystem::path file, std::int64_t keep) : file_(std::move(file)) {
  if (keep > 0 && is_file(file_)) {
    load(keep);
  } else {
    write_all({});
  }
}

void Table::load(std::int64_t keep) {
  auto rows = split(read_file(file_), '\n');
  if (!rows.empty()) {
    columns_ = split(rows.front(), ',');
    rows.erase(rows.begin());
  }
  std::erase_if(rows, [&](const auto& row) {
    const auto cells = static_cast<std::size_t>(std::count(row.begin(), row.end(), ',')) + 1;
    return step_of(row) < 0 || step_of(row) > keep || cells != columns_.size();
  });
  write_all(rows);
}

// Without the head.
std::vector<std::string> Table::rows() const {
  auto rows = split(read_file(file_), '\n');
  rows.erase(rows.begin());
  std::erase(rows, "");  // after the last line's end
  return rows;
}

void Table::write_all(const std::vector<std::string>& rows) {
  out_.close();
  auto text = join(columns_, ",") + "\n";
  for (const auto& row : rows) text += row + "\n";
  write_file(file_, text);
  out_.open(file_);
}

void Table::replace(std::int64_t step, const monitor::Values& values) {
  const std::map<std::string, double> by_name(values.begin(), values.end());
  auto kept = rows();
  std::erase_if(kept, [&](const auto& row) {
    const auto cells = split(row, ',');
    bool same = step_of(row) == step;
    for (std::size_t i = 1; same && i < cells.size(); ++i) same = cells[i].empty() != by_name.contains(columns_[i]);
    return same;
  });
  write_all(kept);
  add(step, values);
}

void Table::add(std::int64_t step, const monitor::Values& values) {
  std::vector<std::string> news;
  for (const auto& [name, value] : values) {
    if (std::find(columns_.begin(), columns_.end(), name) == columns_.end()) news.push_back(name);
  }
  if (!news.empty()) {
    auto longer = rows();
    for (auto& row : longer) row += std::string(news.size(), ',');
    columns_.insert(columns_.end(), news.begin(), news.end());
    write_all(longer);
  }
  const std::map<std::string, double> by_name(values.begin(), values.end());
  std::string row = std::to_string(step);
  for (std::size_t i = 1; i < columns_.size(); ++i) {
    const auto found = by_name.find(columns_[i]);
    row += ',';
    if (found != by_name.end()) row += cell(found->second);
  }
  out_.add(row);
}

}  // namespace csv
