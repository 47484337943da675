#pragma once
#include <capstan/base/export.h>

#include <string>
#include <vector>

#include "report/run.h"
#include "report/table.h"

CAPSTAN_BEGIN_NAMESPACE
namespace report {

/// A table that can be asked for.
struct TableName {
  std::string name;
  std::string title;
};
/// All of them, in the order of the workshop's documents.
const std::vector<TableName>& table_names();

/// The run that the others are compared with: the one of this name or folder; without a name the first of those with
/// the fewest ranks. At least one run. Throws Error where none has that name.
const Run& base_of(const std::vector<Run>& runs, const std::string& name = {});

/// Fills a table from runs, the smallest number of ranks first, which are compared with base_of(runs, base). Warns of
/// runs that differ from it in the model, the data or the batch size. Throws Error for a name that is not among
/// table_names().
Table fill_table(const std::string& name, std::vector<Run> runs, const std::string& base = {});

}  // namespace report
CAPSTAN_END_NAMESPACE
