#pragma once
#include <string>
#include <vector>

#include "chart.h"
#include "runs/run.h"
#include "table.h"

namespace report {

/// Loss, learning rate, gradient norm, throughput, memory over time, and, for runs of several sizes, scaling: a series
/// a run. Only those that some run has numbers for. Scaling is compared with `base`.
std::vector<Chart> charts_of(const std::vector<runs::Run>& runs, const runs::Run& base);

/// One HTML page with the tables and the runs' charts, which needs nothing but itself: no script, no network. Light or
/// dark as the browser prefers; colours that colour-blind readers can tell apart, with dashes and markers besides.
std::string page_of(const std::string& title, const std::vector<Table>& tables, const std::vector<runs::Run>& runs,
                    const runs::Run& base);

}  // namespace report
