#include "tables.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include "cells.h"
#include "kinds.h"

namespace report {

using namespace capstan;
using namespace runs;

namespace {

using Rate = std::optional<double> (*)(const Run&);

// "Samples/s a GPU: one 0.400, …" under the name that the table's own column has.
void add_rates(const std::string& head, const std::vector<Run>& runs, Rate rate, std::vector<std::string>& notes) {
  std::vector<std::string> rates;
  for (const auto& run : runs) {
    if (const auto all = rate(run)) rates.push_back(cat(run.name, " ", fixed(*all / run.ranks, 3)));
  }
  if (!rates.empty()) notes.push_back(cat(head, " a GPU: ", join(rates)));
}

// What the columns leave out: rates a GPU, the last step's loss.
std::vector<std::string> more_notes(const Kind& kind, const std::vector<Run>& runs, const Run& base) {
  std::vector<std::string> notes;
  if (kind.has(samples_cell)) add_rates("Samples/s", runs, samples_per_second, notes);
  if (kind.has(callback_samples_cell)) add_rates("Samples/s (Callback)", runs, training_samples_per_second, notes);
  std::vector<std::string> losses;
  for (const auto& run : runs) {
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
    for (const auto& column : kind.columns) row.push_back(column.of(run, base));
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
    for (const auto& run : runs) row.push_back(column.of(run, base));
  }
}

struct Difference {
  std::string option;
  std::string here;
  std::string of_base;
};

std::string shown(const Run& run, const std::string& option) {
  const auto found = run.options.find(option);
  return found == run.options.end() ? "not set" : config::value_text(found->second);
}

// The options that say most come first: a model of another kind differs in many.
std::vector<Difference> differences(const Run& run, const Run& base, const std::string& table,
                                    const std::vector<std::string>& grows) {
  std::vector<std::string> keys{table + "plugin", table + "path", table + "preset", table + "train"};
  for (const auto* one : {&run, &base}) {
    for (const auto& [key, value] : one->options) {
      if (key.starts_with(table)) keys.push_back(key);
    }
  }
  std::vector<Difference> found;
  std::set<std::string> seen(grows.begin(), grows.end());
  seen.insert("data.cache");  // where samples are kept changes none of them
  for (const auto& key : keys) {
    if (!seen.insert(key).second) continue;
    const auto here = shown(run, key);
    const auto there = shown(base, key);
    if (here != there) found.push_back({key, here, there});
  }
  return found;
}

std::vector<Difference> batch_differences(const Run& run, const Run& base) {
  const std::string global = "train.global_batch";
  const auto of_rank = [](const Run& one) {
    return one.option("train.micro_batch").value_or(0) * one.option("train.accumulation").value_or(0);
  };
  if (of_rank(run) == of_rank(base) || !run.option(global) || !base.option(global)) return {};
  if (run.option(global) == base.option(global)) return {};
  return {{global, shown(run, global), shown(base, global)}};
}

// One sentence on all runs that differ from the base in `what`.
void add_sentence(const std::string& what, const Run& base, const std::vector<std::pair<std::string, Difference>>& all,
                  std::vector<std::string>& sentences) {
  if (all.empty()) return;
  const auto& [name, first] = all.front();
  sentences.push_back(cat("the table mixes ", what, ": in ", name, " ", first.option, " is ", first.here, ", in ",
                          base.name, " ", first.of_base,
                          all.size() > 1 ? cat("; ", all.size() - 1, " more differ from it, too") : ""));
}

// Sentences about runs that differ from the base in the model, the data or the batch size, so that speeds and losses
// do not compare. Options in `grows` may differ: the table is about their growth. Either a rank's batch or the batch of
// all ranks has to be the base's.
std::vector<std::string> what_is_mixed(const std::vector<Run>& runs, const Run& base,
                                       const std::vector<std::string>& grows) {
  std::array<std::vector<std::pair<std::string, Difference>>, 3> differing;
  for (const auto& run : runs) {
    const std::array<std::vector<Difference>, 3> found{
        differences(run, base, "model.", grows), differences(run, base, "data.", grows), batch_differences(run, base)};
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!found[i].empty()) differing[i].emplace_back(run.name, found[i].front());
    }
  }
  std::vector<std::string> sentences;
  add_sentence("models", base, differing[0], sentences);
  add_sentence("data", base, differing[1], sentences);
  add_sentence("batch sizes", base, differing[2], sentences);
  return sentences;
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
  const auto kind = any_on_cpus ? with_host_memory(*found) : *found;
  Table table{kind.name, kind.title, {}, {}, kind.notes, what_is_mixed(runs, base, kind.grows)};
  if (kind.shape == Shape::row_a_run) {
    fill_rows(kind, runs, base, table);
  } else {
    fill_metrics(kind, runs, base, table);
  }
  for (auto& head : table.head) {
    if (head.ends_with(" vs base")) head = cat(head.substr(0, head.size() - 4), base.ranks, " GPU");
  }
  const auto more = more_notes(kind, runs, base);
  table.notes.insert(table.notes.end(), more.begin(), more.end());
  return table;
}

}  // namespace report
