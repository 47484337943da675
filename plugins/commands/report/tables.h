#pragma once
#include <string>
#include <vector>

#include "runs/run.h"
#include "table.h"

namespace report {

/// The tables that can be asked for, in the order of the workshop's documents.
std::vector<std::string> table_names();

/// The run that the others are compared with: the one of this name or folder; without a name the first of those with
/// the fewest ranks. At least one run. Throws Error where none has that name.
const runs::Run& base_of(const std::vector<runs::Run>& runs, const std::string& name = {});

/// Fills a table from runs, the smallest number of ranks first, which are compared with base_of(runs, base). Warns of
/// runs that differ from it in the model, the data or the batch size. Throws Error for a name that is not among
/// table_names().
Table fill_table(const std::string& name, std::vector<runs::Run> runs, const std::string& base = {});

}  // namespace report
