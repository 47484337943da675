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

/// Fills a table from runs, the smallest number of ranks first. At least one run. Throws Error for a name that is not
/// among table_names().
Table fill_table(const std::string& name, std::vector<Run> runs);

}  // namespace report
CAPSTAN_END_NAMESPACE
