#pragma once
#include <string>
#include <vector>

#include "table.h"

namespace pipeline_parallel {

/// A table as text, a line for each position and a column for each unit of time: "0F3" where an action begins, "-"
/// where it continues, "." where the position waits. Of a stage's number only tables with several stages a position
/// have it. What does not fit is left out at the right and at the bottom, and "…" says so.
std::vector<std::string> drawing_of(const Table& table, const capstan::strategy::Timeline& timeline);

}  // namespace pipeline_parallel
