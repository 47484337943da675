#include "tables.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>

#include "cells.h"
#include "comparison.h"
#include "kinds.h"

namespace report {

using namespace capstan;
using namespace runs;

namespace {

using Rate = std::optional<double> (*)(const Run&);

// "Samples/s a GPU: one 0.400, …" under the name that the table's own column has.
void add_rates(const std::string& head, const std::vector<Run>& runs, Rate rate, std::vector<std::string>& notes) {
  std::vector<std::string> rates;
  if (std::all_of(runs.begin(), runs.end(), [](const Run& run) { return run.ranks == 1; })) return;  // the column's
  for (const auto& run : runs) {
    if (const auto all = rate(run)) rates.push_back(cat(run.name, " ", fixed(*all / run.ranks, 3)));
  }
  if (!rates.empty()) notes.push_back(cat(head, " a GPU: ", join(rates)));
}

// What the columns leave out: rates a GPU, the last step's loss, where runs stand that have not ended.
std::vector<std::string> facts_of(const Kind& kind, const std::vector<Run>& runs, const Run& base) {
  std::vector<std::string> notes;
  if (kind.has(samples_cell)) add_rates("Samples/s", runs, samples_per_second, notes);
  if (kind.has(callback_samples_cell)) add_rates("Samples/s (Callback)", runs, training_samples_per_second, notes);
  std::vector<std::string> losses;
  for (const auto& run : runs) {
    if (auto progress = progress_of(run); !progress.empty()) notes.push_back(std::move(progress));
    if (kind.has(last_loss_cell)) continue;
    if (!run.steps.empty() && run.steps.back().loss)
      losses.push_back(cat(run.name, " ", fixed(*run.steps.back().loss, 4)));
  }
  if (!losses.empty()) notes.push_back("Loss of the last step: " + join(losses));
  if (base.option_text("run.device") == "cpu") notes.emplace_back("Computed on CPUs: GPUs are ranks");
  if (runs.size() > 1) notes.push_back(cat("Base, which the others are compared with: ", base.name));
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

void fill_rows(const Kind& kind, const std::vector<Run>& runs, const Run& base, Table& table) {
  for (const auto& column : kind.columns) table.head.push_back(column.head);
  for (const auto& run : runs) {
    auto& row = table.rows.emplace_back();
    for (const auto& column : kind.columns) row.push_back(column.value(run, base));
  }
  std::vector<std::string*> called;
  for (auto& row : table.rows) called.push_back(&row.front().text);
  tell_apart(runs, called);
}

// The column heads: metric, where there is one its category and place, and the runs.
void metrics_head(const Kind& kind, const std::vector<Run>& runs, const Run& base, Table& table) {
  const bool values = kind.shape == Shape::values;
  if (kind.has_categories()) table.head.emplace_back("Category");
  table.head.emplace_back("Metric");
  if (values) table.head.emplace_back(kind.has_categories() ? "Extraction Instruction" : "Log Location & Extraction");
  std::vector<std::string> names;
  for (const auto& run : runs) {
    const auto value = runs.size() == 1 ? std::string("Your Value") : cat("Your Value: ", run.name);
    names.push_back(values ? value : kind.setup(run, base).text);
  }
  std::vector<std::string*> called;
  for (auto& name : names) called.push_back(&name);
  tell_apart(runs, called);
  table.head.insert(table.head.end(), names.begin(), names.end());
}

void fill_metrics(const Kind& kind, const std::vector<Run>& runs, const Run& base, Table& table) {
  metrics_head(kind, runs, base, table);
  for (const auto& column : kind.columns) {
    auto& row = table.rows.emplace_back();
    if (kind.has_categories()) row.push_back(cell(column.category));
    row.push_back(cell(column.head));
    if (kind.shape == Shape::values) row.push_back(cell(column.source));
    for (const auto& run : runs) row.push_back(column.value(run, base));
  }
}

// Columns for the options that differ, next to the run and its size; the others are named.
void add_differences(Kind& kind, const std::vector<Run>& runs, Table& table) {
  constexpr std::size_t most = 4;
  constexpr std::size_t named = 6;
  const auto options = differing_options(runs);
  const auto key_of = [](const std::string& option) { return option.substr(option.rfind('.') + 1); };
  std::map<std::string, int> keys;
  for (const auto& option : options) ++keys[key_of(option)];
  std::vector<std::string> others;
  for (std::size_t i = 0; i < options.size(); ++i) {
    const auto& option = options[i];
    if (i < most) {
      const auto head = keys[key_of(option)] > 1 ? option : key_of(option);
      kind.columns.insert(kind.columns.begin() + 2 + static_cast<std::ptrdiff_t>(i), {head, nullptr, {}, {}, option});
    } else if (others.size() < named) {
      others.push_back(option);
    }
  }
  if (others.empty()) return;
  const auto rest = options.size() - most - others.size();
  table.facts.push_back(cat("Differ too: ", join(others), rest > 0 ? cat(" and ", rest, " more") : ""));
}

// Takes out columns in which no run has a value, and says which and why.
void leave_out_empty(Table& table) {
  std::vector<std::string> gone;
  std::vector<std::string> reasons;
  for (std::size_t at = table.head.size(); at-- > 0;) {
    const bool has_value =
        std::any_of(table.rows.begin(), table.rows.end(), [&](const auto& row) { return row[at].missing.empty(); });
    if (has_value) continue;
    const auto& why = table.rows.front()[at].missing;
    if (std::find(reasons.begin(), reasons.end(), why) == reasons.end()) reasons.insert(reasons.begin(), why);
    gone.insert(gone.begin(), table.head[at]);
    const auto place = static_cast<std::ptrdiff_t>(at);
    table.head.erase(table.head.begin() + place);
    for (auto& row : table.rows) row.erase(row.begin() + place);
  }
  if (!gone.empty()) table.facts.push_back(cat("No run has ", join(gone), ": ", join(reasons, "; ")));
}

void mark_best(const std::vector<Run>& runs, Table& table) {
  const auto best = best_of(runs);
  if (!best) return;
  table.best = best->place;
  table.facts.push_back(cat("Best: ", runs[best->place].name, ", ", best->why));
}

}  // namespace

std::vector<std::string> table_names() {
  std::vector<std::string> names;
  for (const auto& kind : kinds()) names.push_back(kind.name);
  return names;
}

const Run& base_of(const std::vector<Run>& runs, const std::string& name) {
  CAPSTAN_ASSERT(!runs.empty());
  if (name.empty())
    return *std::min_element(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.ranks < b.ranks; });
  const auto same = [&](const Run& run) {
    std::error_code differs;
    return run.name == name || std::filesystem::equivalent(run.folder, name, differs);
  };
  const auto found = std::find_if(runs.begin(), runs.end(), same);
  if (found != runs.end()) return *found;
  std::vector<std::string> names;
  for (const auto& run : runs) names.push_back(run.name);
  throw Error(cat("--base ", name, ": none of these runs has this name or folder"), suggestion(name, names));
}

Table fill_table(const std::string& name, std::vector<Run> runs, const std::string& base_name) {
  CAPSTAN_ASSERT(!runs.empty());
  const auto found = std::find_if(kinds().begin(), kinds().end(), [&](const Kind& one) { return one.name == name; });
  if (found == kinds().end()) throw Error(cat("there is no table '", name, "'"), suggestion(name, table_names()));
  std::stable_sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.ranks < b.ranks; });
  const auto& base = base_of(runs, base_name);
  const bool any_on_cpus = std::any_of(runs.begin(), runs.end(), [](const Run& run) { return run.on_cpus(); });
  auto kind = any_on_cpus ? with_host_memory(*found) : *found;
  Table table{kind.name, kind.title, {}, {}, kind.notes, what_is_mixed(runs, base, kind.grows)};
  if (kind.compares) add_differences(kind, runs, table);
  if (kind.shape == Shape::row_a_run) {
    fill_rows(kind, runs, base, table);
  } else {
    fill_metrics(kind, runs, base, table);
  }
  if (kind.compares) {
    leave_out_empty(table);
    mark_best(runs, table);
  }
  for (auto& head : table.head) {
    if (head.ends_with(" vs base")) head = cat(head.substr(0, head.size() - 4), base.ranks, " GPU");
  }
  const auto facts = facts_of(kind, runs, base);
  table.facts.insert(table.facts.end(), facts.begin(), facts.end());
  return table;
}

}  // namespace report
