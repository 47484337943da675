#pragma once
#include <capstan/base/export.h>

#include <string>
#include <vector>

#include "report/chart.h"
#include "report/run.h"
#include "report/table.h"

CAPSTAN_BEGIN_NAMESPACE
namespace report {

/// Loss, learning rate, gradient norm, throughput, memory over time, and, for runs of several sizes, scaling: a series
/// a run. Only those that some run has numbers for. Scaling is compared with `base`.
std::vector<Chart> charts_of(const std::vector<Run>& runs, const Run& base);

/// One HTML page with the tables and the runs' charts, which needs nothing but itself: no script, no network. Light or
/// dark as the browser prefers; colours that colour-blind readers can tell apart, with dashes and markers besides.
std::string page_of(const std::string& title, const std::vector<Table>& tables, const std::vector<Run>& runs,
                    const Run& base);

}  // namespace report
CAPSTAN_END_NAMESPACE
