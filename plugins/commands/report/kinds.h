#pragma once
#include <string>
#include <vector>

#include "cells.h"

namespace report {

/// A column, or in tables of metrics a line.
struct Column {
  std::string head;
  CellOf* of;                 ///< null: the value of `option`
  std::string source = {};    ///< tables of one run: where the value comes from
  std::string category = {};  ///< tables of one run: what kind of metric
  std::string option = {};    ///< "optimizer.lr"

  Cell value(const runs::Run& run, const runs::Run& base) const;
};

/// row_a_run: a line a run. metrics: a line a metric, a column a run, which `setup` names. values: the same with the
/// place of each value before it.
enum class Shape { row_a_run, metrics, values };

/// A table before it is filled.
struct Kind {
  std::string name;
  std::string title;
  Shape shape = Shape::row_a_run;
  std::vector<Column> columns;
  std::vector<std::string> notes;
  CellOf* setup = nullptr;
  std::vector<std::string> grows = {};  ///< options that differ from run to run, since the table is about their growth
  /// Any runs side by side: what differs between them has columns, what none has has none, and the best run is marked.
  bool compares = false;

  bool has(CellOf* cell) const;

  bool has_categories() const { return shape == Shape::values && !columns.front().category.empty(); }
};

/// The same with a column for what the processes took of host memory, where runs on CPUs would have none for memory.
Kind with_host_memory(Kind kind);

/// All tables, in the order of the workshop's documents.
const std::vector<Kind>& kinds();

}  // namespace report
