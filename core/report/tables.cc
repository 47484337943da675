#include "report/tables.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <map>

#include "report/cells.h"
#include "report/kinds.h"

namespace capstan::report {
namespace {

// "3 samples/s a GPU" of each run, and the last step's loss: what the columns leave out.
std::vector<std::string> more_notes(const std::vector<Run>& runs) {
  std::vector<std::string> rates;
  std::vector<std::string> losses;
  for (const auto& run : runs) {
    const auto rate = samples_per_second(run);
    if (rate) rates.push_back(cat(run.name, " ", fixed(*rate / run.ranks, 3)));
    if (!run.steps.empty() && run.steps.back().loss)
      losses.push_back(cat(run.name, " ", fixed(*run.steps.back().loss, 4)));
  }
  std::vector<std::string> notes;
  if (!rates.empty()) notes.push_back("Samples/s a GPU: " + join(rates));
  if (!losses.empty()) notes.push_back("Loss of the last step: " + join(losses));
  if (runs.front().option_text("run.device") == "cpu") notes.emplace_back("Computed on CPUs: GPUs are ranks");
  if (runs.size() > 1) notes.push_back(cat("Base, which the others are compared with: ", runs.front().name));
  return notes;
}

// Runs that the table would call alike (one number of GPUs, several strategies) are told apart by their names.
void tell_apart(const std::vector<Run>& runs, const std::vector<std::string*>& called) {
  std::map<std::string, int> counts;
  for (const auto* one : called) ++counts[*one];
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto& name = runs[i].name;
    if (counts.at(*called[i]) > 1 && *called[i] != name) *called[i] += cat(" (", name, ")");
  }
}

void fill_rows(const Kind& kind, const std::vector<Run>& runs, Table& table) {
  for (const auto& column : kind.columns) table.head.push_back(column.head);
  for (const auto& run : runs) {
    auto& row = table.rows.emplace_back();
    for (const auto& column : kind.columns) row.push_back(column.of(run, runs.front()));
  }
  std::vector<std::string*> called;
  for (auto& row : table.rows) called.push_back(&row.front().text);
  tell_apart(runs, called);
}

// The column heads: metric, where there is one its category and place, and the runs.
void metrics_head(const Kind& kind, const std::vector<Run>& runs, Table& table) {
  const bool values = kind.shape == Shape::values;
  if (kind.has_categories()) table.head.emplace_back("Category");
  table.head.emplace_back("Metric");
  if (values) table.head.emplace_back(kind.has_categories() ? "Extraction Instruction" : "Log Location & Extraction");
  std::vector<std::string> names;
  for (const auto& run : runs) {
    const auto value = runs.size() == 1 ? std::string("Your Value") : cat("Your Value: ", run.name);
    names.push_back(values ? value : kind.setup(run, runs.front()).text);
  }
  std::vector<std::string*> called;
  for (auto& name : names) called.push_back(&name);
  tell_apart(runs, called);
  table.head.insert(table.head.end(), names.begin(), names.end());
}

void fill_metrics(const Kind& kind, const std::vector<Run>& runs, Table& table) {
  metrics_head(kind, runs, table);
  for (const auto& column : kind.columns) {
    auto& row = table.rows.emplace_back();
    if (kind.has_categories()) row.push_back(cell(column.category));
    row.push_back(cell(column.head));
    if (kind.shape == Shape::values) row.push_back(cell(column.source));
    for (const auto& run : runs) row.push_back(column.of(run, runs.front()));
  }
}

}  // namespace

const std::vector<TableName>& table_names() {
  static const std::vector<TableName> names = [] {
    std::vector<TableName> made;
    for (const auto& kind : kinds()) made.push_back({kind.name, kind.title});
    return made;
  }();
  return names;
}

Table fill_table(const std::string& name, std::vector<Run> runs) {
  CAPSTAN_ASSERT(!runs.empty());
  const auto kind = std::find_if(kinds().begin(), kinds().end(), [&](const Kind& one) { return one.name == name; });
  if (kind == kinds().end()) {
    std::vector<std::string> names;
    for (const auto& one : table_names()) names.push_back(one.name);
    throw Error(cat("there is no table '", name, "'"), suggestion(name, names));
  }
  std::stable_sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.ranks < b.ranks; });
  Table table{kind->name, kind->title, {}, {}, kind->notes};
  if (kind->shape == Shape::row_a_run) {
    fill_rows(*kind, runs, table);
  } else {
    fill_metrics(*kind, runs, table);
  }
  for (auto& head : table.head) {
    if (head.ends_with(" vs base")) head = cat(head.substr(0, head.size() - 4), runs.front().ranks, " GPU");
  }
  const auto more = more_notes(runs);
  table.notes.insert(table.notes.end(), more.begin(), more.end());
  return table;
}

}  // namespace capstan::report
